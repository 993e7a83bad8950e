// SPDX-License-Identifier: Apache-2.0
#include "kernels/cpu.h"

#include <cpuid.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cstdint>

namespace skein::kernels {
namespace {

struct Leaf {
  std::uint32_t a = 0, b = 0, c = 0, d = 0;
};

Leaf Cpuid(unsigned leaf, unsigned subleaf) {
  Leaf result;
  if (__get_cpuid_count(leaf, subleaf, &result.a, &result.b, &result.c, &result.d) == 0) return {};
  return result;
}

bool Bit(std::uint32_t word, int bit) { return ((word >> bit) & 1U) != 0; }

// The register states that the operating system saves and restores (XCR0). Requires: the OSXSAVE bit.
std::uint64_t SavedStates() {
  std::uint32_t low = 0;
  std::uint32_t high = 0;
  __asm__ volatile("xgetbv" : "=a"(low), "=d"(high) : "c"(0));
  return (static_cast<std::uint64_t>(high) << 32) | low;
}

// Linux gives tile registers only to processes that ask. Source: Documentation/arch/x86/xstate.rst.
bool RequestTiles() {
  constexpr long kRequestPermission = 0x1023;  // ARCH_REQ_XCOMP_PERM
  constexpr long kTileData = 18;               // XFEATURE_XTILEDATA
  return syscall(SYS_arch_prctl, kRequestPermission, kTileData) == 0;
}

CpuFeatures Detect() {
  CpuFeatures features;
  const Leaf one = Cpuid(1, 0);
  if (!Bit(one.c, 27)) return features;  // OSXSAVE
  const std::uint64_t saved = SavedStates();
  const Leaf seven = Cpuid(7, 0);
  const Leaf seven_one = Cpuid(7, 1);
  constexpr std::uint64_t kAvxStates = 0x6;
  constexpr std::uint64_t kAvx512States = 0xe6;
  constexpr std::uint64_t kTileStates = 0x60000;
  features.avx2 = (saved & kAvxStates) == kAvxStates && Bit(one.c, 12) && Bit(one.c, 28) && Bit(one.c, 29) &&
                  Bit(seven.b, 5);
  features.avx512 = features.avx2 && (saved & kAvx512States) == kAvx512States && Bit(seven.b, 16) &&
                    Bit(seven.b, 17) && Bit(seven.b, 30) && Bit(seven.b, 31) && Bit(seven.c, 11);
  features.avx512_bf16 = features.avx512 && Bit(seven_one.a, 5);
  features.avx512_fp16 = features.avx512 && Bit(seven.d, 23);
  features.avx512_vbmi = features.avx512 && Bit(seven.c, 1);
  constexpr std::uint32_t kGenu = 0x756e6547;  // "Genu", of GenuineIntel
  const bool intel = Cpuid(0, 0).b == kGenu;
  features.fast_bf16_dot = features.avx512_bf16 && !intel;
  features.prefetch_pays = intel;
  features.amx = features.avx512_fp16 && features.avx512_bf16 && (saved & kTileStates) == kTileStates &&
                 Bit(seven.d, 22) && Bit(seven.d, 24) && Bit(seven.d, 25) && RequestTiles();
  return features;
}

}  // namespace

const CpuFeatures& Cpu() {
  static const CpuFeatures features = Detect();
  return features;
}

}  // namespace skein::kernels
