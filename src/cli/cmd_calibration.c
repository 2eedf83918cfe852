/* ckptctl calibration: what the model predicted beside what came. */
#include <inttypes.h>
#include <stdio.h>

#include "ckpt/v1/operator.pb-c.h"
#include "src/base/check.h"
#include "src/cli/call.h"
#include "src/cli/commands.h"
#include "src/cli/output.h"

#define GPU_MS_PER_HOUR 3600000.0

struct bins {
    const uint64_t *counts;
    size_t count;
    const uint64_t *end_ppm;
};

static uint64_t bins_total(const struct bins *bins)
{
    uint64_t sum = 0;

    for (size_t i = 0; i < bins->count; i++)
        sum += bins->counts[i];
    return sum;
}

/* Between the ends of the bin that holds it; the last one has no end. */
static void print_quantile(FILE *out, const struct bins *bins, double part)
{
    double left = part * (double)bins_total(bins);
    char text[32] = "-";

    for (size_t i = 0; i < bins->count && bins_total(bins) > 0; i++) {
        double low = i == 0 ? 0 : (double)bins->end_ppm[i - 1] / 1e6;
        double here = (double)bins->counts[i];

        if (here == 0 || left > here) {
            left -= here;
            continue;
        }
        if (i + 1 == bins->count)
            snprintf(text, sizeof(text), "> %.2f", low);
        else
            snprintf(text, sizeof(text), "%.2f",
                     low + ((double)bins->end_ppm[i] / 1e6 - low) * left / here);
        break;
    }
    fprintf(out, " %6s", text);
}

static void print_ratio(FILE *out, const char *name, const uint64_t *counts, size_t count,
                        const Ckpt__V1__GetCalibrationReply *reply)
{
    struct bins bins = {counts, count, reply->ratio_end_ppm};

    if (bins.count > reply->n_ratio_end_ppm) /* of a member that says less than it should */
        bins.count = reply->n_ratio_end_ppm;
    fprintf(out, "%-10s %5" PRIu64, name, bins_total(&bins));
    print_quantile(out, &bins, 0.1);
    print_quantile(out, &bins, 0.5);
    print_quantile(out, &bins, 0.9);
    fputc('\n', out);
}

static void print_success(FILE *out, const Ckpt__V1__Calibration *calibration)
{
    size_t count = calibration->n_ended;

    if (calibration->n_completed < count || calibration->n_ended_ppm < count)
        count = 0;
    for (size_t i = 0; i < count; i++) {
        double ended = (double)calibration->ended[i];

        if (calibration->ended[i] == 0)
            continue;
        fprintf(out,
                "success: %" PRIu64 " ended that were given %.3f on the mean: %.3f completed\n",
                calibration->ended[i], (double)calibration->ended_ppm[i] / 1e6 / ended,
                (double)calibration->completed[i] / ended);
    }
}

/* Two standard deviations of a count, by_chance(expected), by Newton's steps. */
static double by_chance(double expected)
{
    double root = expected > 1 ? expected : 1;

    for (int i = 0; i < 64; i++)
        root = (root + expected / root) / 2;
    return 2 * root;
}

static void print_sums(FILE *out, const Ckpt__V1__Calibration *calibration)
{
    double expected = (double)calibration->expected_losses_e6 / 1e6;

    fprintf(out,
            "losses: %.2f expected (+- %.2f by chance), %" PRIu64 " came: %" PRIu64
            " with a node, %" PRIu64 " killed\n",
            expected, by_chance(expected), calibration->node_losses + calibration->kill_losses,
            calibration->node_losses, calibration->kill_losses);
    fprintf(out,
            "value: %.2f GPU-h of work saved predicted by %" PRIu64
            " checkpoints, %.2f saved at %" PRIu64
            " losses with a node within half their age (%.2f at deaths of applications)\n",
            (double)calibration->saved_predicted_gpu_ms / GPU_MS_PER_HOUR, calibration->checkpoints,
            (double)calibration->saved_gpu_ms / GPU_MS_PER_HOUR, calibration->saved_count,
            (double)calibration->saved_other_gpu_ms / GPU_MS_PER_HOUR);
    fprintf(out, "pauses: %.2f GPU-h predicted, %.2f measured\n",
            (double)calibration->pause_predicted_gpu_ms / GPU_MS_PER_HOUR,
            (double)calibration->pause_gpu_ms / GPU_MS_PER_HOUR);
}

enum cli_exit command_calibration(struct cli *cli)
{
    Ckpt__V1__GetCalibrationRequest request = CKPT__V1__GET_CALIBRATION_REQUEST__INIT;
    ProtobufCMessage *message;
    enum cli_exit code;

    request.stale = cli_flag(cli, "stale");
    code = call_read(cli, "read the calibration", "OperatorService/GetCalibration", &request.base,
                     &ckpt__v1__get_calibration_reply__descriptor, &message);
    if (code != CLI_OK)
        return code;
    const Ckpt__V1__GetCalibrationReply *reply = (const Ckpt__V1__GetCalibrationReply *)message;
    const Ckpt__V1__Calibration *calibration = reply->calibration;

    if (!output_json_message(cli, "calibration", message) && !output_name(cli, "calibration") &&
        calibration != NULL) {
        cli_out(cli, "%-10s %5s %6s %6s %6s   actual / predicted\n", "", "COUNT", "P10", "P50",
                "P90");
        print_ratio(cli->out, "size", calibration->size_ratio, calibration->n_size_ratio, reply);
        print_ratio(cli->out, "write time", calibration->write_ratio, calibration->n_write_ratio,
                    reply);
        print_ratio(cli->out, "pause", calibration->pause_ratio, calibration->n_pause_ratio, reply);
        print_success(cli->out, calibration);
        print_sums(cli->out, calibration);
    }
    call_free(message);
    return CLI_OK;
}
