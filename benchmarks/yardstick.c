/* CombUCB1 (Kveton et al. 2015) on Bernoulli arms under semi-bandit feedback, scanning all K arms each round.
 *
 * A round reads all arms in single precision, keeping those whose index may reach a floor set just below the last
 * round's S-th largest index; indices of the kept few are then computed in double precision, which alone decide.
 */
#include <math.h>
#include <stdint.h>
#include <stdlib.h>

#if defined(__AVX512VBMI2__) && defined(__AVX512VL__) && defined(__AVX512BW__) && defined(__AVX512DQ__) && \
    defined(__BMI2__)
#define WIDE 1
#include <immintrin.h>
#elif defined(__AVX2__) && defined(__FMA__)
#include <immintrin.h>
#endif

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

#if defined(WIDE)
static inline void screen(const float *mean, const float *inv_root, int64_t from, int64_t to, float c, float floor,
                          Kept *kept) {
    static const uint8_t places[BLOCK] = {
        0,  1,  2,  3,  4,  5,  6,  7,  8,  9,  10, 11, 12, 13, 14, 15, 16, 17, 18, 19, 20, 21,
        22, 23, 24, 25, 26, 27, 28, 29, 30, 31, 32, 33, 34, 35, 36, 37, 38, 39, 40, 41, 42, 43,
        44, 45, 46, 47, 48, 49, 50, 51, 52, 53, 54, 55, 56, 57, 58, 59, 60, 61, 62, 63,
    };
    const __m512i place = _mm512_loadu_si512(places);
    const __m512 cs = _mm512_set1_ps(c), floors = _mm512_set1_ps(floor);
    int64_t size = kept->size;
    for (int64_t a = from; a < to; a += BLOCK) {
        __mmask16 part[4];
        for (int i = 0; i < 4; i++) {
            __m512 roots = _mm512_load_ps(inv_root + a + 16 * i), x = _mm512_load_ps(mean + a + 16 * i);
            part[i] = _mm512_cmp_ps_mask(_mm512_fmadd_ps(cs, roots, x), floors, _CMP_GE_OQ);
        }
        __mmask64 mask = _mm512_kunpackd(_mm512_kunpackw(part[3], part[2]), _mm512_kunpackw(part[1], part[0]));
        /* No branch on where the kept arms are, since that cannot be predicted; one compression for 64 arms. */
        __m512i found = _mm512_maskz_compress_epi8(mask, place), base = _mm512_set1_epi32((int)a);
        uint32_t *out = kept->arm + size;
        _mm512_storeu_si512(out, _mm512_add_epi32(base, _mm512_cvtepu8_epi32(_mm512_castsi512_si128(found))));
        int more = __builtin_popcountll(mask);
        size += more;
        if (__builtin_expect(more > 16, 0)) {
            __m128i second = _mm512_extracti32x4_epi32(found, 1), third = _mm512_extracti32x4_epi32(found, 2);
            __m128i fourth = _mm512_extracti32x4_epi32(found, 3);
            _mm512_storeu_si512(out + 16, _mm512_add_epi32(base, _mm512_cvtepu8_epi32(second)));
            _mm512_storeu_si512(out + 32, _mm512_add_epi32(base, _mm512_cvtepu8_epi32(third)));
            _mm512_storeu_si512(out + 48, _mm512_add_epi32(base, _mm512_cvtepu8_epi32(fourth)));
        }
    }
    kept->size = size;
}
#else
/* Bit i says whether arm i of a block of 64 may reach the floor. */
static inline uint64_t reaching(const float *mean, const float *inv_root, float c, float floor) {
    uint64_t mask = 0;
#if defined(__AVX2__) && defined(__FMA__)
    const __m256 cs = _mm256_set1_ps(c), floors = _mm256_set1_ps(floor);
    for (int i = 0; i < BLOCK; i += 8) {
        __m256 x = _mm256_fmadd_ps(cs, _mm256_load_ps(inv_root + i), _mm256_load_ps(mean + i));
        mask |= (uint64_t)(uint32_t)_mm256_movemask_ps(_mm256_cmp_ps(x, floors, _CMP_GE_OQ)) << i;
    }
#else
    int any = 0;
    for (int i = 0; i < BLOCK; i++) any |= mean[i] + c * inv_root[i] >= floor;
    for (int i = 0; any && i < BLOCK; i++) mask |= (uint64_t)(mean[i] + c * inv_root[i] >= floor) << i;
#endif
    return mask;
}

static inline void screen(const float *mean, const float *inv_root, int64_t from, int64_t to, float c, float floor,
                          Kept *kept) {
    for (int64_t a = from; a < to; a += BLOCK) {
        uint64_t mask = reaching(mean + a, inv_root + a, c, floor);
        uint32_t *out = kept->arm + kept->size;
        int found = __builtin_popcountll(mask);
        /* Few blocks hold more than two: writing two always is cheaper than branches that cannot be predicted. */
        for (int i = 0; i < 2; i++, mask &= mask - 1) out[i] = (uint32_t)(a + __builtin_ctzll(mask | 1ull << 63));
        for (int i = 2; i < found; i++, mask &= mask - 1) out[i] = (uint32_t)(a + __builtin_ctzll(mask));
        kept->size += found;
    }
}
#endif

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
#if defined(WIDE)
    for (int64_t i = 0; i < kept->size; i += LANES)
        n += __builtin_popcount(_mm512_cmp_pd_mask(_mm512_load_pd(kept->index + i), _mm512_set1_pd(x), _CMP_GT_OQ));
#else
    int64_t padded = (kept->size + LANES - 1) / LANES * LANES;
    for (int64_t i = 0; i < padded; i++) n += kept->index[i] > x;
#endif
    return n;
}

static inline int64_t at_least(const Kept *kept, double x, double *least) {
    int64_t n = 0;
#if defined(WIDE)
    __m512d low = _mm512_set1_pd(INFINITY);
    for (int64_t i = 0; i < kept->size; i += LANES) {
        __m512d v = _mm512_load_pd(kept->index + i);
        __mmask8 mask = _mm512_cmp_pd_mask(v, _mm512_set1_pd(x), _CMP_GE_OQ);
        n += __builtin_popcount(mask);
        low = _mm512_mask_min_pd(low, mask, low, v);
    }
    *least = _mm512_reduce_min_pd(low);
#else
    double low = INFINITY;
    int64_t padded = (kept->size + LANES - 1) / LANES * LANES;
    for (int64_t i = 0; i < padded; i++) {
        double v = kept->index[i] >= x ? kept->index[i] : INFINITY;
        n += kept->index[i] >= x;
        low = v < low ? v : low;
    }
    *least = low;
#endif
    return n;
}

/* Drop from place `from` on all below x, and all equal to x but the first `equal`. */
static inline void retain(Kept *kept, int64_t from, double x, int64_t equal) {
    int64_t size = from;
#if defined(WIDE)
    for (int64_t i = from; i < kept->size; i += LANES) {
        __m512d v = _mm512_loadu_pd(kept->index + i);
        __m256i arm = _mm256_loadu_si256((const __m256i *)(kept->arm + i));
        uint32_t more = _mm512_cmp_pd_mask(v, _mm512_set1_pd(x), _CMP_GT_OQ);
        uint32_t ties = _mm512_cmp_pd_mask(v, _mm512_set1_pd(x), _CMP_EQ_OQ);
        ties = _pdep_u32((1u << (equal < LANES ? equal : LANES)) - 1, ties);
        equal -= __builtin_popcount(ties);
        more |= ties;
        _mm512_storeu_pd(kept->index + size, _mm512_maskz_compress_pd((__mmask8)more, v));
        _mm256_storeu_si256((__m256i *)(kept->arm + size), _mm256_maskz_compress_epi32((__mmask8)more, arm));
        size += __builtin_popcount(more);
    }
#else
    for (int64_t i = from; i < kept->size; i++) {
        double v = kept->index[i];
        int tie = (v == x) & (equal > 0);
        kept->index[size] = v;
        kept->arm[size] = kept->arm[i];
        equal -= tie;
        size += (v > x) | tie;
    }
#endif
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
                screen(mean, inv_root, a, a + CHUNK < width ? a + CHUNK : width, (float)c, floor, &kept);
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
    free(arms), free(mean), free(inv_root), free(kept.arm), free(kept.index);
    return regret;
}
