#include "simd/tiers.h"

#include <cstring>
#include <stdexcept>

#include "simd/kernels.h"

#if defined(__x86_64__) || defined(_M_X64)
#define BRIDLE_X86 1
#if defined(_MSC_VER)
#include <intrin.h>
#else
#include <cpuid.h>
#endif
#endif

namespace bridle {

namespace portable {
extern const Kernels table;
}
#if defined(BRIDLE_X86)
namespace sse2 {
extern const Kernels table;
}
namespace avx2 {
extern const Kernels table;
}
namespace avx512 {
extern const Kernels table;
}
#elif defined(__aarch64__) || defined(_M_ARM64)
namespace neon {
extern const Kernels table;
}
#endif

namespace {

#if defined(BRIDLE_X86)
struct Registers {
    unsigned a = 0, b = 0, c = 0, d = 0;
};

Registers cpuid(unsigned leaf, unsigned sub = 0) {
    Registers r;
#if defined(_MSC_VER)
    int out[4];
    __cpuidex(out, int(leaf), int(sub));
    r = {unsigned(out[0]), unsigned(out[1]), unsigned(out[2]), unsigned(out[3])};
#else
    __cpuid_count(leaf, sub, r.a, r.b, r.c, r.d);
#endif
    return r;
}

// Which registers the operating system keeps for us.
unsigned kept_registers() {
#if defined(_MSC_VER)
    return unsigned(_xgetbv(0));
#else
    unsigned low, high;
    __asm__("xgetbv" : "=a"(low), "=d"(high) : "c"(0));
    return low;
#endif
}

bool has_bits(unsigned value, unsigned bits) { return (value & bits) == bits; }

bool has_avx2() {
    if (cpuid(0).a < 7) return false;
    const unsigned c = cpuid(1).c;
    if (!has_bits(c, 1u << 27 | 1u << 28 | 1u << 12)) return false;  // OSXSAVE, AVX, FMA
    return has_bits(kept_registers(), 0x6) && has_bits(cpuid(7).b, 1u << 5);
}

bool has_avx512() {  // F, DQ, BW, VL
    return has_avx2() && has_bits(kept_registers(), 0xe6) &&
           has_bits(cpuid(7).b, 1u << 16 | 1u << 17 | 1u << 30 | 1u << 31);
}
#endif

std::vector<const Kernels*> tables_here() {
    std::vector<const Kernels*> out{&portable::table};
#if defined(BRIDLE_X86)
    out.push_back(&sse2::table);
    if (has_avx2()) out.push_back(&avx2::table);
    if (has_avx512()) out.push_back(&avx512::table);
#elif defined(__aarch64__) || defined(_M_ARM64)
    out.push_back(&neon::table);
#endif
    return out;
}

const Kernels* chosen = &portable::table;

}  // namespace

const Kernels& kernels() { return *chosen; }

std::vector<std::string> tiers_here() {
    std::vector<std::string> out;
    for (const Kernels* table : tables_here()) out.emplace_back(table->name);
    return out;
}

void choose_tier(const char* name) {
    const std::vector<const Kernels*> all = tables_here();
    if (!name || !*name) {
        chosen = all.back();
        return;
    }
    std::string known;
    for (const Kernels* table : all) {
        if (std::strcmp(table->name, name) == 0) {
            chosen = table;
            return;
        }
        known += (known.empty() ? "" : ", ") + std::string(table->name);
    }
    throw std::runtime_error("BRIDLE_SIMD is '" + std::string(name) + "', expected one of " + known +
                             " on this processor (" + processor() + "). Unset it to use the fastest.");
}

std::string processor() {
#if defined(BRIDLE_X86)
    if (cpuid(0x80000000u).a >= 0x80000004u) {
        char text[49] = {};
        for (unsigned k = 0; k < 3; ++k) {
            const Registers r = cpuid(0x80000002u + k);
            std::memcpy(text + 16 * k, &r, 16);
        }
        std::string name = text;
        while (!name.empty() && name.front() == ' ') name.erase(0, 1);
        while (!name.empty() && name.back() == ' ') name.pop_back();
        if (!name.empty()) return name;
    }
    return "x86-64";
#elif defined(__aarch64__) || defined(_M_ARM64)
    return "64-bit ARM";
#else
    return "unknown";
#endif
}

}  // namespace bridle
