/* The part of the kind s3 that every program has. See s3_form.h. */
#include "src/dest/s3/s3_form.h"

#include <string.h>

#include "src/dest/s3/location.h"
#include "src/dest/s3/sign_server.h"

/* Whatever begins so is of this kind, also when it is wrong: it is then refused by name. */
bool s3_parse(const char *location)
{
    return strncmp(location, "s3://", 5) == 0;
}

int s3_validate(const char *location, struct err *err)
{
    struct location parsed;

    return location_parse(location, &parsed, err);
}

const struct destination_ops destination_s3_apart = {
    .kind = S3_KIND,
    .parse = s3_parse,
    .validate = s3_validate,
    .serve = &s3_sign_server,
    .program = S3_PROGRAM,
};
