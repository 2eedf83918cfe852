/* Which file systems are served over a network, or by another process: an access may block for as
 * long as that one likes. */
#ifndef CKPT_AGENT_NETWORK_FS_H
#define CKPT_AGENT_NETWORK_FS_H

#include <stdint.h>

/* Its name by statfs(2)'s f_type; NULL: none that is known as such. */
const char *network_fs_name(uint32_t type);

#endif
