/* Which documents of one BMC are still to be read in this poll, and which ones in every poll.
 *
 * Flow     walk_begin(): all from the root every WALK_EVERY polls, or after a document that was
 *          known is gone; else the known leaves. walk_next() -> fetch -> walk_found() with its
 *          links, until it is NULL.
 * Shapes   at most WALK_DOCUMENTS_MAX documents and WALK_DEPTH_MAX links from the root; each
 *          document once per poll, so that links in a circle end.
 * Errors   none; what is over the limits is counted in `cut`.
 */
#ifndef CKPT_TELEMETRY_WALK_H
#define CKPT_TELEMETRY_WALK_H

#include "src/telemetry/redfish.h"

enum { WALK_DOCUMENTS_MAX = 1024, WALK_DEPTH_MAX = 8, WALK_EVERY = 60 };

/* A document of a poll. */
struct walk_document {
    char *path;
    uint8_t depth; /* links from the root */
    bool leaf;     /* it has values: it is read in every poll */
};

/* Of one endpoint, from poll to poll; begins as zeros. */
struct walk {
    struct walk_document *documents; /* of this poll, in the order of reading */
    size_t count, capacity;
    size_t next;    /* the one to be read, or that is being read */
    bool discover;  /* this poll follows links */
    unsigned polls; /* since everything was read */
    bool stale;     /* read everything the next time */
    uint64_t cut;   /* documents beyond the limits, of this poll */
};

void walk_close(struct walk *walk); /* zeros again */
/* A poll begins: of the last one the leaves are kept, or nothing. */
void walk_begin(struct walk *walk);
/* The next document's path; NULL: the poll is over. Valid until the next call of a function of this
 * header. */
const char *walk_next(struct walk *walk);
/* The document of the last walk_next() was read. */
void walk_found(struct walk *walk, const struct redfish_links *links);
/* ... could not be read: the next poll begins at the root again, where its new place is found. */
void walk_missed(struct walk *walk);

#endif
