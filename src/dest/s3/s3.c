/* The row of the kind s3. See s3.h. */
#include "src/dest/s3/s3.h"

#include "src/dest/s3/s3_form.h"
#include "src/dest/s3/sign_server.h"

const struct destination_ops destination_s3 = {
    .kind = S3_KIND,
    .parse = s3_parse,
    .validate = s3_validate,
    .probe = s3_probe,
    .hold = s3_hold,
    .claim = NULL,
    .put = s3_put,
    .verify = s3_verify,
    .restore = s3_restore,
    .collect = s3_collect,
    .abandon = s3_abandon,
    .scan = s3_scan,
    .serve = &s3_sign_server,
};
