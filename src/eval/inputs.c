/* See inputs.h. */
#include "src/eval/inputs.h"

#include <string.h>

#define DIGEST_START UINT64_C(0xcbf29ce484222325)
#define DIGEST_PRIME UINT64_C(0x100000001b3)

static uint64_t bits_of(double number)
{
    uint64_t bits;

    memcpy(&bits, &number, sizeof(bits));
    return bits;
}

static double number_of(uint64_t bits)
{
    double number;

    memcpy(&number, &bits, sizeof(number));
    return number;
}

const char *eval_input_names(void)
{
#define X(number)       " " #number
#define Y(type, number) " " #number
    static const char names[] =
        EVAL_VIEW_COLUMNS(X) " |" EVAL_POLICY_NUMBERS(X) " |" EVAL_SITUATION_NUMBERS(Y);
#undef Y
#undef X
    return names + 1;
}

void eval_row_take(const struct eval_view *view, size_t i, uint64_t ret_bits[EVAL_COLUMN_COUNT])
{
    size_t at = 0;

#define X(column) ret_bits[at++] = bits_of(view->column[i]);
    EVAL_VIEW_COLUMNS(X)
#undef X
}

void eval_row_give(const uint64_t bits[EVAL_COLUMN_COUNT], struct eval_view *view, size_t i)
{
    size_t at = 0;

#define X(column) view->column[i] = number_of(bits[at++]);
    EVAL_VIEW_COLUMNS(X)
#undef X
}

void eval_policy_take(const struct eval_policy *policy, uint64_t ret_bits[EVAL_POLICY_COUNT])
{
    size_t at = 0;

#define X(number) ret_bits[at++] = bits_of(policy->number);
    EVAL_POLICY_NUMBERS(X)
#undef X
}

void eval_policy_give(const uint64_t bits[EVAL_POLICY_COUNT], struct eval_policy *ret_policy)
{
    size_t at = 0;

#define X(number) ret_policy->number = number_of(bits[at++]);
    EVAL_POLICY_NUMBERS(X)
#undef X
}

void eval_situation_take(const struct eval_situation *situation,
                         uint64_t ret_bits[EVAL_SITUATION_COUNT])
{
    size_t at = 0;

#define X(type, number) ret_bits[at++] = bits_of((double)situation->number);
    EVAL_SITUATION_NUMBERS(X)
#undef X
}

void eval_situation_give(const uint64_t bits[EVAL_SITUATION_COUNT],
                         struct eval_situation *ret_situation)
{
    size_t at = 0;

#define X(type, number) ret_situation->number = (type)number_of(bits[at++]);
    EVAL_SITUATION_NUMBERS(X)
#undef X
}

/* FNV-1a over whole words, folded so that high bits count. */
static uint64_t digest_add(uint64_t digest, uint64_t word)
{
    digest = (digest ^ word) * DIGEST_PRIME;
    return digest ^ digest >> 29;
}

uint64_t eval_result_digest(const struct eval_result *result, size_t i)
{
    uint64_t digest = digest_add(DIGEST_START, result->verdict[i]);

#define X(column) digest = digest_add(digest, bits_of(result->column[i]));
    EVAL_RESULT_COLUMNS(X)
#undef X
    return digest;
}

uint64_t eval_payoffs_digest(uint64_t result_digest, const struct eval_payoffs *payoffs)
{
    uint64_t digest = digest_add(result_digest, payoffs->best);

    for (int action = 0; action < EVAL_ACTION_COUNT; action++)
        digest = digest_add(digest, bits_of(payoffs->net_gpu_s[action]));
    return digest;
}
