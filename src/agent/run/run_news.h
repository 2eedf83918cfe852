/* News of an application's keeper (run_keeper.h) on the loop of ckpt-run. One keeper at a time. */
#ifndef CKPT_AGENT_RUN_NEWS_H
#define CKPT_AGENT_RUN_NEWS_H

#include <uv.h>

#include "src/agent/run/run_keeper.h"

/* news: NULL when the keeper has gone. */
typedef void run_news_fn(const struct keeper_news *news);
void run_news_watch(uv_loop_t *loop, int fd, run_news_fn *take);
/* Takes now what has come. */
void run_news_read(void);
/* Before the descriptor is closed. */
void run_news_stop(void);

#endif
