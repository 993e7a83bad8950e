// SPDX-License-Identifier: Apache-2.0
//
// Model is a model's weights in memory, packed for the kernels that were chosen for this machine. Loaded once, immutable
// afterwards, shared by any number of decoders.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>

#include "base/status.h"
#include "formats/model_file.h"
#include "kernels/arithmetic.h"
#include "kernels/attention/attention.h"
#include "kernels/threads/thread_pool.h"
#include "model/memory.h"
#include "model/packer.h"
#include "model/share.h"
#include "model/weights.h"

namespace skein::model {

struct Architecture;

struct LoadOptions {
  std::optional<kernels::Arithmetic> arithmetic;  // absent: auto
  std::optional<kernels::KernelPath> path;        // absent: the best of this machine
  std::string packed_cache;                       // a folder for packed weights (packed_cache.h); empty: none
  LoadProgress progress;                          // may be empty
  std::optional<Share> share;                     // of this rank; absent: the whole model
  std::uint64_t memory_limit = 0;                 // bytes that may be taken; 0: what AvailableMemory says
  std::uint64_t other_bytes = 0;                  // that the caller will take besides (KV cache, decoder scratch)
};

class Model {
 public:
  // Errors: kInvalidArgument (an arithmetic or a path that cannot be had), kLimit (memory, before anything is read),
  // kInvalidFile (the architecture is not known; the file became shorter).
  static Result<std::unique_ptr<Model>> Load(const formats::ModelFile& file, const LoadOptions& options,
                                             kernels::ThreadPool& pool);

  const formats::ModelConfig& config() const { return config_; }  // of the whole model
  const Share& share() const { return share_; }
  const formats::ModelConfig& local() const { return local_; }  // of this rank's share
  const Architecture& architecture() const { return *architecture_; }
  kernels::Arithmetic arithmetic() const { return arithmetic_; }
  // The arithmetic of attention over keys stored as `type`; nothing when they do not go together. It is the model's own,
  // but for F16 and F32 weights, whose products are exact by default: over a rounded cache that somebody asked for,
  // their attention is bf16p's. Who asks for `exact` by name gets fp32 keys or a refusal.
  std::optional<kernels::Arithmetic> AttentionArithmetic(kernels::KvType type) const;
  kernels::KernelPath path() const { return path_; }
  const ModelWeights& weights() const { return weights_; }
  std::uint64_t packed_bytes() const { return packed_bytes_; }
  const CacheUse& cache_use() const { return cache_use_; }

 private:
  formats::ModelConfig config_, local_;
  Share share_;
  const Architecture* architecture_ = nullptr;
  kernels::Arithmetic arithmetic_ = kernels::Arithmetic::kExact;
  bool arithmetic_asked_ = false;  // by name, not `auto`
  kernels::KernelPath path_ = kernels::KernelPath::kRef;
  ModelWeights weights_;
  std::uint64_t packed_bytes_ = 0;
  CacheUse cache_use_;
};

// What will be needed in memory, from headers alone. Used by the check before loading and by `skein inspect`.
struct MemoryQuestion {
  LoadOptions options;
  std::optional<kernels::KvType> kv_type;  // absent: the arithmetic's default
  std::uint32_t frames = 0;                // of the KV store
  int threads = 1;
  int step_tokens = 512;   // Decoder::Limits
  int step_outputs = 64;
};
struct MemoryAnswer {
  MemoryNeed need;
  kernels::Arithmetic arithmetic = kernels::Arithmetic::kExact;  // that would be chosen
  kernels::KvType kv_type = kernels::KvType::kF32;
  std::uint64_t frame_bytes = 0;  // of a KV frame over all layers and heads
};
Result<MemoryAnswer> EstimateMemory(const formats::ModelFile& file, const MemoryQuestion& question);

}  // namespace skein::model
