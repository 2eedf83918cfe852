/* Targets that this node is to look through for checkpoints: SCAN orders (agent.proto).
 *
 * Flow     scans_look() after each order set -> `ckpt-worker scan`, page after page with a rest in
 *          between -> ScanPage on the stream -> the last one ends it here, and the leader ends the
 *          order. The worker reads each job's folders with the rights of their owner.
 * Shapes   one worker at a time, one target after the other. What was told to its end is known by
 *          prefix and attempt until no set names it any more. Another stream, as of another
 *          leader, has not heard the pages before: the scan begins anew.
 * Errors   a worker that fails ends the scan with its text. A page that finds no stream waits for
 *          the next one.
 */
#ifndef CKPT_AGENT_SCANS_H
#define CKPT_AGENT_SCANS_H

struct agent;
struct scans;

struct scans *scans_new(struct agent *agent);
/* A worker at work is ended. */
void scans_free(struct scans *scans);
void scans_look(struct scans *scans);

#endif
