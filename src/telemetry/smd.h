/* OpenCHAMI's State Management Database: GET /hsm/v2/State/Components.
 *
 * Flow     smd_parse(): bytes -> one STATUS and one POWER sample per component of type Node. The
 *          subject is its ID (an xname); the broker's map file, or a node of that name, or "nid"
 *          with six digits of NID says which node it is (smd_nid_name()).
 * Units    STATUS 0 OK, 1 Warning, 2 Alert; POWER 0 Ready, On, Populated, 1 Standby (its heartbeat
 *          was lost), 3 Off, Halt, Empty.
 * Errors   -1 with err for what is not such a document; a component without ID or with an unknown
 *          state is skipped and counted.
 * Source   HSM API v2: Component (ID, Type, State, Flag, Enabled, NID).
 */
#ifndef CKPT_TELEMETRY_SMD_H
#define CKPT_TELEMETRY_SMD_H

#include "src/base/err.h"
#include "src/telemetry/samples.h"

/* Appends the samples of all components. 0, or -1 with ERR_INVALID when it is no JSON or has no
 * list of components. Names are copied: the document may go afterwards. May run on any thread. */
int smd_parse(const void *bytes, size_t length, struct samples *samples, struct err *err);

#endif
