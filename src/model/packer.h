// SPDX-License-Identifier: Apache-2.0
//
// Packer carries a WeightPlan out: reads tensors with pread in pieces of a few hundred rows and packs them, panel by
// panel, on all workers of a pool; or reads what an earlier load packed (packed_cache.h). Besides the packed weights it
// holds one piece per worker.
#pragma once

#include <cstdint>
#include <functional>
#include <string>

#include "base/status.h"
#include "formats/model_file.h"
#include "kernels/threads/thread_pool.h"
#include "model/weight_plan.h"

namespace skein::model {

// Bytes read so far and in all; called by the thread that loads.
using LoadProgress = std::function<void(std::uint64_t done, std::uint64_t total)>;

// What became of the packed cache.
struct CacheUse {
  bool read = false;
  bool written = false;
  std::string trouble;  // a line: why there was one that was not used, or none could be written
  // "read", "written", or nothing.
  const char* Word() const { return read ? "read" : written ? "written" : ""; }
};

struct PackRequest {
  kernels::KernelPath path = kernels::KernelPath::kRef;  // chooses kernels
  std::string cache_folder;                              // empty: no packed cache
  LoadProgress progress;                                 // may be empty
};

// Allocates, reads and packs everything in the plan into the places that it names. Errors: kLimit (memory), kInvalidFile
// (a file that has become shorter); none from the cache. `memory` becomes the buffer in which the packed matrices lie.
Result<CacheUse> PackWeights(const formats::ModelFile& file, const WeightPlan& plan, const PackRequest& request,
                             kernels::ThreadPool& pool, Buffer& memory);

// Bytes that the pieces of `threads` workers take at most.
std::uint64_t PackerScratchBytes(const WeightPlan& plan, int threads);

}  // namespace skein::model
