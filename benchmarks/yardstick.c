/* CombUCB1 (Kveton et al. 2015) on Bernoulli arms under semi-bandit feedback, scanning all K arms each round.
 *
 * A round reads all arms in single precision, keeping those whose index may reach a floor set just below the last
 * round's S-th largest index; indices of the kept few are then computed in double precision, which alone decide.
 */
#include <math.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

/* Without these GCC would branch after sqrt to set errno, and fuse some indices but not others. */
#if defined(__clang__)
#pragma STDC FP_CONTRACT OFF
#elif defined(__GNUC__)
#pragma GCC optimize("no-math-errno", "no-trapping-math", "fp-contract=off")
#endif

enum { LANES = 8, BLOCK = 64, CHUNK = 512, RANKED = 24 };

/* Half a cache line, so that a scattered arm costs one miss. */
typedef struct {
    double mean, inv_root;
    uint64_t threshold;
    uint32_t count, sum;
} Arm;

typedef struct {
    uint32_t *arm;
    double *index;
    int64_t size;
} Kept;

static inline uint64_t bits(uint64_t start, uint64_t column) {
    uint64_t z = start + (column + 1) * 0x9E3779B97F4A7C15u;
    z = (z ^ (z >> 30)) * 0xBF58476D1CE4E5B9u;
    z = (z ^ (z >> 27)) * 0x94D049BB133111EBu;
    return z ^ (z >> 31);
}

/* Three roundings of non-negative terms lose less than 4 parts in 2^24, so nothing that reaches x is screened out. */
static inline float safely_below(double x) { return (float)(x * (1 - 0x1p-21)); }

/* The first loop is vectorised by the compiler; the second passes over eight arms at a time where none is kept. */
static inline void screen(const float *mean, const float *inv_root, int64_t from, int64_t to, float c, float floor,
                          uint8_t *flag, Kept *kept) {
    for (int64_t a = from; a < to; a++) flag[a] = mean[a] + c * inv_root[a] >= floor;
    int64_t size = kept->size;
    for (int64_t a = from; a < to; a += 8) {
        uint64_t word;
        memcpy(&word, flag + a, 8);
        for (; word; word &= word - 1) kept->arm[size++] = (uint32_t)(a + (__builtin_ctzll(word) >> 3));
    }
    kept->size = size;
}

/* Compute the exact indices from place `from` on, and pad to whole vectors. */
static inline void evaluate(Kept *kept, int64_t from, const Arm *arms, double c) {
    for (int64_t i = from; i < kept->size; i++) {
        const Arm *x = arms + kept->arm[i];
        kept->index[i] = x->mean + c * x->inv_root;
    }
    for (int i = 0; i < LANES; i++) kept->index[kept->size + i] = -INFINITY;
}

static inline int64_t above(const Kept *kept, double x) {
    int64_t n = 0;
    int64_t padded = (kept->size + LANES - 1) / LANES * LANES;
    for (int64_t i = 0; i < padded; i++) n += kept->index[i] > x;
    return n;
}

static inline int64_t at_least(const Kept *kept, double x, double *least) {
    int64_t n = 0;
    double low = INFINITY;
    int64_t padded = (kept->size + LANES - 1) / LANES * LANES;
    for (int64_t i = 0; i < padded; i++) {
        double v = kept->index[i] >= x ? kept->index[i] : INFINITY;
        n += kept->index[i] >= x;
        low = v < low ? v : low;
    }
    *least = low;
    return n;
}

/* Drop from place `from` on all below x, and all equal to x but the first `equal`. */
static inline void retain(Kept *kept, int64_t from, double x, int64_t equal) {
    int64_t size = from;
    for (int64_t i = from; i < kept->size; i++) {
        double v = kept->index[i];
        int tie = (v == x) & (equal > 0);
        kept->index[size] = v;
        kept->arm[size] = kept->arm[i];
        equal -= tie;
        size += (v > x) | tie;
    }
    kept->size = size;
    for (int i = 0; i < LANES; i++) kept->index[size + i] = -INFINITY;
}

/* The rank-th largest of the kept indices, or -inf where fewer than `rank` reach `low`, which is 0 or more. */
static double select_rank(const Kept *kept, int64_t rank, double low) {
    if (kept->size < rank) return -INFINITY;
    if (kept->size <= RANKED) {
        double found = INFINITY;
        for (int64_t i = 0; i < kept->size; i++) {
            double x = kept->index[i];
            found = (above(kept, x) < rank) & (x < found) ? x : found;
        }
        return found >= low ? found : -INFINITY;
    }
    /* Vectorised counts close in on the answer: more than `rank` reach `bottom`, fewer reach `top`. */
    double least, bottom, top = INFINITY, pivot = kept->index[kept->size / 2];
    int64_t reach_bottom = at_least(kept, low, &bottom), reach_top = 0;
    if (reach_bottom < rank) return -INFINITY;
    if (reach_bottom == rank) return bottom;
    for (int step = 0;; step++) {
        if (!(pivot > bottom && pivot < top)) pivot = 0.5 * (bottom + top);
        /* Interpolation may stall; a walk over the distinct values from the bottom always ends. */
        if (!(pivot < top) || step > 40) pivot = bottom;
        int64_t reach = at_least(kept, pivot, &least);
        if (reach == rank) return least;
        if (reach > rank) {
            reach_bottom = above(kept, least);
            if (reach_bottom < rank) return least;
            bottom = nextafter(least, INFINITY);
        } else {
            top = pivot;
            reach_top = reach;
        }
        const double share = (double)(reach_bottom - rank) / (double)(reach_bottom - reach_top);
        if (top == INFINITY)
            pivot = kept->index[(step * 7 + 3) % kept->size];
        else
            pivot = bottom + (top - bottom) * (step % 4 == 3 ? 0.5 : share);
    }
}

static void *vectors(int64_t count, size_t size) {
    /* Room to write a whole block of places past the end. */
    return aligned_alloc(64, ((size_t)count * size + 63) / 64 * 64 + BLOCK * sizeof(double));
}

static int descending(const void *x, const void *y) {
    double a = *(const double *)x, b = *(const double *)y;
    return (a < b) - (a > b);
}

double comb_ucb1(int64_t K, int64_t S, int64_t T, const double *means, uint64_t start, int64_t *last_arms) {
    const int64_t width = (K + BLOCK - 1) / BLOCK * BLOCK;
    const int64_t limit = 2 * S + BLOCK;
    Arm *arms = vectors(width, sizeof *arms);
    float *mean = vectors(width, sizeof *mean), *inv_root = vectors(width, sizeof *inv_root);
    uint8_t *flag = vectors(width, 1);
    Kept kept = {vectors(width, sizeof(uint32_t)), vectors(width, sizeof(double)), 0};

    for (int64_t a = 0; a < width; a++) {
        /* u < mu for u a multiple of 2^-53 is a comparison of whole numbers. */
        arms[a] = (Arm){0, 0, a < K ? (uint64_t)ceil(means[a] * 0x1p53) : 0, 0, 0};
        mean[a] = -INFINITY;
        inv_root[a] = 0;
    }

    int64_t fresh = 0;
    double last = -INFINITY, margin = 1;
    for (int64_t t = 1; t <= T; t++) {
        const double c = sqrt(1.5 * log((double)t));
        /* Unobserved arms have index +inf and go first, smallest first: they are always the tail from `fresh`. */
        const int64_t unseen = K - fresh < S ? K - fresh : S, rank = S - unseen;
        kept.size = 0;
        while (rank > 0) {
            const double cut = fmax(last - margin, 0);
            float floor = safely_below(cut);
            int64_t evaluated = 0, seen = 0;
            double beaten = -INFINITY;
            for (int64_t a = 0; a < width; a += CHUNK) {
                screen(mean, inv_root, a, a + CHUNK < width ? a + CHUNK : width, (float)c, floor, flag, &kept);
                if (kept.size <= limit) continue;
                /* Ties can be thousands while counts are small. Later arms lose ties, so they must beat `beaten`. */
                seen += kept.size - evaluated;
                evaluate(&kept, evaluated, arms, c);
                retain(&kept, evaluated, beaten, 0);
                if (kept.size > limit) {
                    beaten = select_rank(&kept, rank, 0);
                    retain(&kept, 0, beaten, rank - above(&kept, beaten));
                    if (beaten > cut) floor = safely_below(beaten);
                }
                evaluated = kept.size;
            }
            seen += kept.size - evaluated;
            evaluate(&kept, evaluated, arms, c);
            double found = select_rank(&kept, rank, cut);
            if (found > -INFINITY) {
                retain(&kept, 0, found, rank - above(&kept, found));
                if (last > -INFINITY) margin *= seen > rank + 1 + S / 8 ? 0.8 : 1.25;
                last = unseen ? -INFINITY : found;
                break;
            }
            margin *= 4;
            kept.size = 0;
        }
        for (int64_t i = 0; i < unseen; i++) kept.arm[kept.size++] = (uint32_t)fresh++;

        const uint64_t row = bits(start, (uint64_t)t);
        for (int64_t i = 0; i < S; i++) {
            const uint32_t a = kept.arm[i];
            Arm *x = arms + a;
            x->count += 1;
            x->sum += (bits(row, a) >> 11) < x->threshold;
            x->mean = (double)x->sum / x->count;
            x->inv_root = 1 / sqrt((double)x->count);
            mean[a] = (float)x->mean;
            inv_root[a] = (float)x->inv_root;
        }
    }
    for (int64_t i = 0; i < S && T > 0; i++) last_arms[i] = kept.arm[i];

    /* Pseudo-regret depends on the counts alone, so that nothing need be added up round by round. */
    double regret = 0;
    for (int64_t a = 0; a < K; a++) kept.index[a] = means[a];
    qsort(kept.index, (size_t)K, sizeof(double), descending);
    for (int64_t i = 0; i < S; i++) regret += (double)T * kept.index[i];
    for (int64_t a = 0; a < K; a++) regret -= arms[a].count * means[a];
    free(arms), free(mean), free(inv_root), free(flag), free(kept.arm), free(kept.index);
    return regret;
}
