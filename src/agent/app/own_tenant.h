/* The tenants that a user may register jobs of the own for: those that are named like the user or
 * one of the user's groups, and those that the site's table gives.
 *
 * Shapes   the table is one line of TENANT=WHO,WHO... with blanks between. A WHO is a user, @GROUP
 *          or * for all. Groups are names with commas between.
 * Errors   a table that is none names the word.
 */
#ifndef CKPT_AGENT_OWN_TENANT_H
#define CKPT_AGENT_OWN_TENANT_H

#include <stdbool.h>

#include "src/base/err.h"

int own_tenants_check(const char *table, struct err *err);
bool own_tenant_is(const char *tenant, const char *user, const char *groups, const char *table);

#endif
