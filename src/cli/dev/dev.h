/* ckptctl dev: a whole cluster on loopback for trying out, gone when its ckptctl is.
 *
 * Flow     ckptctl forks the keeper (dev_keeper.c), and this the stage (dev_stage.c), which starts
 *          three members, two agents and two jobs. The keeper sees by a pipe that ckptctl has
 *          ended, however it ended; it then ends the jobs that people started at its agents, kills
 *          all below itself and removes the folder. The stage tells what to type, and starts a
 *          program again that was killed.
 * Shapes   one struct dev; the keeper and the stage have copies from their forks on. Everything
 *          that is written lies in its folder.
 *          No variable of another cluster reaches its programs: all that begin with CKPT_ are
 *          unset.
 * Errors   in struct err of what is prepared; later the stage prints them with the end of a log,
 *          and ends with 1. The folder goes then too, but for --keep.
 */
#ifndef CKPT_CLI_DEV_DEV_H
#define CKPT_CLI_DEV_DEV_H

#include <limits.h>
#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "src/base/err.h"

enum {
    DEV_MEMBERS = 3,
    DEV_NODES = 2,
    DEV_FOLDER_BYTES = 81, /* with the name of a socket in it, a socket's address */
    DEV_ENDPOINTS_BYTES = 24 * DEV_MEMBERS
};

struct dev {
    char folder[DEV_FOLDER_BYTES];
    char programs[PATH_MAX];             /* where ckptctl lies */
    char endpoints[DEV_ENDPOINTS_BYTES]; /* of the members' API */
    uint64_t started_ms;
    bool keep;      /* the folder, when the cluster cannot be started */
    bool other_tls; /* the environment names certificates of another cluster */
};

extern const char *const dev_node_names[DEV_NODES];

/* dev_files.c: the path of a program that lies beside ckptctl or in PATH; ERR_NOT_FOUND names the
 * package. */
int dev_find(const struct dev *dev, const char *program, char path[PATH_MAX], struct err *err);
/* Makes the folder; wanted NULL: one of its own below $XDG_RUNTIME_DIR or /tmp. */
int dev_folder_make(struct dev *dev, const char *wanted, struct err *err);
void dev_folder_remove(const struct dev *dev);
/* Chooses ports and writes the configurations and the job's script. */
int dev_files_write(struct dev *dev, struct err *err);

/* dev_stage.c: returns an exit code when the cluster cannot be started, and else not at all. */
int dev_stage(struct dev *dev);

/* dev_keeper.c: runs the stage until it ends or alive_fd has no writer any more. Returns the exit
 * code of the keeper. */
int dev_keep(struct dev *dev, int alive_fd);

/* dev_own.c: ends the jobs that people started at the cluster's agents, and says which. Called by
 * the keeper: what runs below this is not theirs. */
void dev_own_end(const struct dev *dev);
/* The parent of a process by /proc; 0: it is gone. */
pid_t dev_parent_of(pid_t pid);

uint64_t dev_now_ms(void);

#endif
