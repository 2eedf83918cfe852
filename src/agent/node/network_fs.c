/* Network file systems by number. See network_fs.h. Numbers: statfs(2), linux/magic.h; those of
 * Lustre, GPFS, BeeGFS and PanFS are their own sources'. */
#include "src/agent/node/network_fs.h"

#include <stddef.h>

#include "src/base/check.h"

static const struct {
    uint32_t type;
    const char *name;
} network_types[] = {
    {0x00006969, "NFS"},      {0x0bd00bd0, "Lustre"}, {0x47504653, "GPFS"}, {0x65735546, "FUSE"},
    {0x00c36400, "Ceph"},     {0x19830326, "BeeGFS"}, {0xff534d42, "CIFS"}, {0xfe534d42, "SMB2"},
    {0x0000517b, "SMB"},      {0x5346414f, "AFS"},    {0x6b414653, "AFS"},  {0x01021997, "9P"},
    {0x20030528, "OrangeFS"}, {0xaad7aaea, "PanFS"},  {0x01161970, "GFS2"}, {0x7461636f, "OCFS2"},
};

const char *network_fs_name(uint32_t type)
{
    for (size_t i = 0; i < ARRAY_COUNT(network_types); i++) {
        if (network_types[i].type == type)
            return network_types[i].name;
    }
    return NULL;
}
