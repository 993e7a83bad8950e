// SPDX-License-Identifier: Apache-2.0
//
// Chooses the loops of this processor.
#include "kernels/ceilings/ceilings.h"

#include "kernels/ceilings/ceilings_paths.h"
#include "kernels/cpu.h"

namespace skein::kernels {

std::vector<ComputeCeiling> ComputeCeilings() {
  std::vector<ComputeCeiling> ceilings;
#if defined(__x86_64__)
  const CpuFeatures& cpu = Cpu();
  if (cpu.amx) {
    ceilings.push_back(CeilingAmxBf16());
  } else if (cpu.fast_bf16_dot) {
    ceilings.push_back(CeilingAvx512Bf16());
  } else if (cpu.avx512_bf16) {
    // Two FMAs on widened pairs are sooner done.
    ceilings.push_back(CeilingAvx512Fp32());
    ceilings.back().name = "bf16";
  }
  if (cpu.avx512) {
    ceilings.push_back(CeilingAvx512Int8());
    ceilings.push_back(CeilingAvx512Fp32());
  } else if (cpu.avx2) {
    ceilings.push_back(CeilingAvx2Int8());
    ceilings.push_back(CeilingAvx2Fp32());
  }
#endif
  return ceilings;
}

void ReadInOrder(const std::byte* memory, std::size_t bytes) {
#if defined(__x86_64__)
  if (Cpu().avx512) return ReadInOrderAvx512(memory, bytes);
  if (Cpu().avx2) return ReadInOrderAvx2(memory, bytes);
#endif
  std::uint64_t sum = 0;
  for (std::size_t i = 0; i < bytes; i += sizeof sum) sum ^= *reinterpret_cast<const std::uint64_t*>(memory + i);
  static_cast<void>(*static_cast<volatile std::uint64_t*>(&sum));
}

}  // namespace skein::kernels
