/* The agent of one job without a cluster: the same agent as ckpt-agentd's, in a process below
 * ckpt-run, with the calls of alone_server.h in the place of a leader's.
 *
 * Flow     ckpt-run starts itself again with ALONE_VERB. The folder is read, the journal is opened,
 *          and what an agent before it had in hand is taken up. Then it says one line on its
 *          output, "ready COUNT NEWEST TAKEN_MS" or "error TEXT", after lines "note TEXT", and
 *          closes that.
 * Shapes   a process of its own, so that a full disk under its journal, or a failed CHECK, takes
 *          neither ckpt-run nor the application along: ckpt-run starts it again. It ends with
 *          ckpt-run. Its journal, its sockets and its log lie in the work folder, on the node. All
 *          that a job needs after a reboot lies in the folder of its checkpoints.
 * Errors   exit code 1 after "error".
 */
#ifndef CKPT_AGENT_ALONE_AGENT_H
#define CKPT_AGENT_ALONE_AGENT_H

#define ALONE_VERB "standalone-agent"

/* In the folder of its state. */
#define ALONE_SOCKET "agent"
#define ALONE_ORDERS "orders"
#define ALONE_LOG    "log"

/* ALONE_VERB STATE FOLDER ALLOCATION EVERY_MS KEEP */
int alone_agent(int argc, char **argv);

#endif
