/* Redfish: what one document of a BMC says of its node's health, and which documents to read next.
 *
 * Flow     source.c asks for redfish_root(); redfish_parse() of each answer appends samples and
 *          links; walk.h holds what is still to be read. ServiceRoot -> Systems, Chassis -> their
 *          Members, page after page -> Memory and Processors -> their Metrics; Thermal (older) or
 *          ThermalSubsystem -> ThermalMetrics and Sensors.
 * Shapes   a document is told by its own @odata.type, never by where it was found. Links are
 *          absolute paths below /redfish/v1 on the host that was asked, at most REDFISH_LINK_BYTES
 *          long: everything else is refused and counted.
 * Units    THERMAL and STATUS in levels; ECC in counts.
 * Errors   -1 with err for what is no Redfish document. Members of a wrong type are as if they were
 *          missing.
 * Absent   sessions, events, $expand, writing anything.
 * Source   DSP0266 and the schemas ServiceRoot, ComputerSystem, Memory, MemoryMetrics, Processor,
 *          ProcessorMetrics, Chassis, Thermal, ThermalMetrics, Sensor.
 */
#ifndef CKPT_TELEMETRY_REDFISH_H
#define CKPT_TELEMETRY_REDFISH_H

#include "src/base/err.h"
#include "src/telemetry/samples.h"

enum { REDFISH_LINK_BYTES = 256, REDFISH_LINKS_MAX = 1024 };

/* What to read next; begins as zeros. */
struct redfish_links {
    char *items[REDFISH_LINKS_MAX]; /* of the heap */
    size_t count;
    uint64_t refused; /* lead elsewhere, or are too many */
    bool leaf;        /* this document has values that change: read it each time */
};
void redfish_links_close(struct redfish_links *links); /* zeros again */

/* Where every service begins: "/redfish/v1/". */
const char *redfish_root(void);
/* A path that may be asked for: below /redfish/v1, printable, no "..", no "//", neither of them in
 * disguise (%2e, %2f), no fragment. A query is allowed: pages have one. A BMC may have been taken
 * over, and what it links to is asked with the site's credentials. */
bool redfish_link_valid(const char *link);
/* Appends the document's samples and links, both begun by the caller. 0, also for a document of a
 * type that has nothing for us; -1 with ERR_INVALID when it is no JSON object or says no type. May
 * run on any thread. */
int redfish_parse(const void *bytes, size_t length, struct samples *samples,
                  struct redfish_links *links, struct err *err);

#endif
