// SPDX-License-Identifier: Apache-2.0
//
// What `skein bench kernels` measures: the ceilings of this machine, then kernels, each against the ceiling that is nearer:
// the time it would take if only the slower of computing and reading memory took any.
#pragma once

#include <cstddef>
#include <string>
#include <vector>

#include "base/status.h"
#include "kernels/arithmetic.h"
#include "kernels/threads/thread_pool.h"

namespace skein::app {

struct ComputeRate {
  std::string name;                // of what is multiplied: "int8", "bf16", "fp32"
  std::string instruction;
  double one_thread = 0, all = 0;  // operations a second
};
struct ReadRate {
  std::string place;               // "L1", "L2", "L3", "DRAM"
  std::size_t bytes = 0;           // that each thread reads again and again, of all threads' for DRAM
  double one_thread = 0, all = 0;  // bytes a second
};
struct Ceilings {
  std::vector<ComputeRate> compute;
  std::vector<ReadRate> read;  // DRAM last
};
Result<Ceilings> MeasureCeilings(kernels::ThreadPool& pool);
// Each ceiling the larger of the two: a shared machine only takes away.
void TakeLarger(const Ceilings& other, Ceilings& ceilings);

struct KernelRate {
  std::string kernel;      // "avx512vnni/int8g32/w4min"
  std::string what;        // "32 rows", "prompt of 512", "token at 8192"
  std::string multiplied;  // the name of the compute ceiling
  double seconds = 0;
  double operations = 0;   // useful ones
  double bytes = 0;        // of weights, or of keys and values, read once
  double read_rate = 0;    // bytes a second that reading alone reached right before and after; 0: the ceiling counts
  double fraction = 0;     // of the nearer ceiling
  bool by_memory = false;  // that is the nearer one
};
// Fills in the fractions.
void Judge(const Ceilings& ceilings, std::vector<KernelRate>& rates);

// y = W x for a matrix of k columns and `outputs` rows, in `formats` and the default arithmetics of this machine, for each of `rows`;
// copies of the matrix, `pool_bytes` together, are visited in turn, so that weights come from memory.
struct LinearCases {
  int k = 2048, outputs = 8192;
  std::vector<kernels::WeightFormat> formats = {kernels::WeightFormat::kW4, kernels::WeightFormat::kW4Min, kernels::WeightFormat::kW8,
                                                kernels::WeightFormat::kBf16};
  std::vector<int> rows = {1, 8, 32, 128, 512};
  std::size_t pool_bytes = std::size_t{256} << 20;
};
Result<std::vector<KernelRate>> MeasureLinear(kernels::ThreadPool& pool, kernels::KernelPath path, const LinearCases& cases);
// Attention of 32 heads over 8 KV heads of 64 (Llama-3.2-1B's): prompts of 512 and 2048, one token at 1024 and 8192.
Result<std::vector<KernelRate>> MeasureAttention(kernels::ThreadPool& pool, kernels::KernelPath path);

}  // namespace skein::app
