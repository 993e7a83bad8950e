// SPDX-License-Identifier: Apache-2.0
//
// PackedCache is a file with the packed matrices of one model as they lie in memory, so that the next load reads instead of
// packing. The model's own file is opened all the same: it decides whether the cache is its own, and holds the vectors.
//
// Bytes (little-endian 64-bit words): magic, version, key, bytes of the matrices, count of pieces, a checksum for each piece of
// 512 KiB, a checksum of all these words; zeros up to the next multiple of 4096; then the matrices. The key is a hash of what
// decides a single byte of them: the model's files (inode, size, time of writing), the plan of its matrices, the arithmetic
// and the kernel path. Whoever changes the bytes of a panel raises kVersion; a load also packs one panel of every matrix
// anew and compares, which finds a change of panels or of the model that the key does not see.
//
// Nothing here makes a load fail: a file that is damaged, short or of another model is not used and replaced.
#pragma once

#include <cstdint>
#include <span>
#include <string>

#include "base/status.h"
#include "formats/model_file.h"
#include "kernels/threads/thread_pool.h"
#include "model/weight_plan.h"

namespace skein::model {

class PackedCache {
 public:
  static constexpr std::uint64_t kVersion = 1;

  // The cache in `folder` for this model and plan; nothing is opened yet.
  PackedCache(const std::string& folder, const formats::ModelFile& file, const WeightPlan& plan, kernels::KernelPath path);

  const std::string& path() const { return path_; }
  // Fills `matrices`, on all workers. Errors: kMissing when there is no file (or no leave to read it), kInvalidFile with the
  // reason when there is one that cannot be used; `matrices` then holds anything.
  Status Read(kernels::ThreadPool& pool, std::span<std::byte> matrices) const;
  // Writes the file, whole or not at all; makes the folder. Errors: kMissing and kInvalidArgument with the reason.
  Status Write(kernels::ThreadPool& pool, std::span<const std::byte> matrices) const;

 private:
  std::string path_;
  std::uint64_t key_ = 0;
};

// A hash of bytes that finds damage, not malice: every step is a bijection of its lane, so bytes that differ in one word only
// never have the same hash. About 8 bytes a cycle.
std::uint64_t HashBytes(std::span<const std::byte> bytes);

}  // namespace skein::model
