// SPDX-License-Identifier: Apache-2.0
//
// KvStore owns the memory of keys and values. It is cut into frames of 64 positions of one (layer, KV head), four quarters
// each; block b of the store is quarter b % 4 of frame b / 4 in every (layer, KV head), and the frames of one (layer, KV
// head) lie side by side, so that a frame's address is base + number * frame bytes. Who holds which block is the
// scheduler's business.
//
// Thread rule: frames are written by one worker each (model/arch/*_decoder.cc); CopyBlock is called between steps.
// All memory is reserved when the store is made.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>

#include "base/ids.h"
#include "base/status.h"
#include "formats/model_config.h"
#include "kernels/attention/attention.h"
#include "kernels/threads/thread_pool.h"
#include "tensor/buffer.h"

namespace skein::model {

class KvStore {
 public:
  // `frames` places of 64 positions each. Errors: kInvalidArgument when head vectors of this width have no such type,
  // kLimit when memory cannot be had.
  static Result<std::unique_ptr<KvStore>> Create(const formats::ModelConfig& config, kernels::KvType type,
                                                 std::uint32_t frames);
  // Bytes that a frame takes over all layers and KV heads.
  static std::uint64_t FrameBytes(const formats::ModelConfig& config, kernels::KvType type);

  const kernels::KvLayout& layout() const { return layout_; }
  std::uint32_t frames() const { return frames_; }
  std::uint32_t blocks() const { return frames_ * kernels::kFrameBlocks; }
  std::size_t frame_bytes() const { return frame_bytes_; }
  std::uint64_t bytes() const { return data_.size(); }

  // The first frame of a (layer, KV head).
  std::byte* base(int layer, int kv_head) {
    return data_.data() + (static_cast<std::size_t>(layer) * kv_heads_ + static_cast<std::size_t>(kv_head)) * frames_ * frame_bytes_;
  }
  // The frame that a block is a quarter of, and the first of the block's 16 slots in it.
  std::byte* frame(int layer, int kv_head, BlockId block) {
    return base(layer, kv_head) + block.value / kernels::kFrameBlocks * frame_bytes_;
  }
  static int SlotOf(BlockId block) { return static_cast<int>(block.value % kernels::kFrameBlocks) * kernels::kBlockTokens; }

  // Copies a block in all layers and heads.
  void CopyBlock(BlockId from, BlockId to);
  // Writes to every page once, so that the system can refuse no page later.
  void Touch(kernels::ThreadPool& pool);

 private:
  kernels::KvLayout layout_;
  std::size_t frame_bytes_ = 0;
  std::uint32_t frames_ = 0;
  int layers_ = 0;
  std::size_t kv_heads_ = 0;
  Buffer data_;  // [layers][kv_heads][frames][frame bytes]
};

// What `auto` means for the cache: fp32 with the exact arithmetic, bf16 with the others.
kernels::KvType DefaultKvType(kernels::Arithmetic arithmetic);

}  // namespace skein::model
