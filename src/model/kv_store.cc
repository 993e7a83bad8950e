// SPDX-License-Identifier: Apache-2.0
#include "model/kv_store.h"

#include "base/checked.h"

namespace skein::model {

std::uint64_t KvStore::FrameBytes(const formats::ModelConfig& config, kernels::KvType type) {
  const kernels::KvLayout layout{type, config.head_dim};
  return layout.frame_bytes() * static_cast<std::uint64_t>(config.layers) * static_cast<std::uint64_t>(config.kv_heads);
}

Result<std::unique_ptr<KvStore>> KvStore::Create(const formats::ModelConfig& config, kernels::KvType type,
                                                 std::uint32_t frames) {
  const auto bytes = CheckedMultiply(FrameBytes(config, type), frames);
  if (!bytes || *bytes > SIZE_MAX / 2) {
    return LimitExceeded("KV cache: " + std::to_string(frames) + " frames do not fit an address space; lower --context");
  }
  auto store = std::make_unique<KvStore>();
  store->layout_ = {type, config.head_dim};
  store->frame_bytes_ = store->layout_.frame_bytes();
  store->frames_ = frames;
  store->layers_ = config.layers;
  store->kv_heads_ = static_cast<std::size_t>(config.kv_heads);
  Result<Buffer> data = Buffer::Allocate(*bytes);
  if (!data.ok()) return data.status().WithContext("KV cache");
  store->data_ = std::move(data).value();
  return store;
}

void KvStore::CopyBlock(BlockId from, BlockId to) {
  for (int layer = 0; layer < layers_; ++layer) {
    for (int head = 0; head < static_cast<int>(kv_heads_); ++head) {
      kernels::CopyQuarter(layout_, frame(layer, head, from), SlotOf(from), frame(layer, head, to), SlotOf(to));
    }
  }
}

void KvStore::Touch(kernels::ThreadPool& pool) {
  constexpr std::size_t kPage = 4096;
  const std::size_t pages = (data_.size() + kPage - 1) / kPage;
  pool.Run([&](kernels::Worker& worker) {
    const std::size_t count = static_cast<std::size_t>(worker.count());
    const std::size_t index = static_cast<std::size_t>(worker.index());
    for (std::size_t page = pages * index / count; page < pages * (index + 1) / count; ++page) {
      static_cast<volatile std::byte*>(data_.data())[page * kPage] = std::byte{0};
    }
  });
}

kernels::KvType DefaultKvType(kernels::Arithmetic arithmetic) {
  return arithmetic == kernels::Arithmetic::kExact ? kernels::KvType::kF32 : kernels::KvType::kBf16;
}

}  // namespace skein::model
