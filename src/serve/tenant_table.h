/* A table of tenants in a configuration file: who may do what the key gives, for which tenant.
 *
 * Shapes   one line of TENANT=WHO,WHO... with blanks between. A WHO is a user, @GROUP or * for all.
 *          Groups are names with commas between; "": they are not known.
 * Errors   a table that is none names the key and the word.
 */
#ifndef CKPT_SERVE_TENANT_TABLE_H
#define CKPT_SERVE_TENANT_TABLE_H

#include <stdbool.h>

#include "src/base/err.h"

/* key: as the file has it. */
int tenant_table_check(const char *key, const char *table, struct err *err);
bool tenant_table_gives(const char *table, const char *tenant, const char *user,
                        const char *groups);
/* Whether a tenant is named like the user or one of the groups. */
bool tenant_is_named(const char *tenant, const char *user, const char *groups);

#endif
