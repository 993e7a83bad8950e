// SPDX-License-Identifier: Apache-2.0
#include "tensor/buffer.h"

#include <sys/mman.h>

#include <cstdint>
#include <string>

#include "base/check.h"

namespace skein {
namespace {

constexpr std::size_t kHugePage = std::size_t{2} << 20;

}  // namespace

Result<Buffer> Buffer::Allocate(std::size_t bytes) {
  Buffer buffer;
  if (bytes == 0) return buffer;
  // Small buffers are rounded to pages, large ones to huge pages and aligned to one, so that every byte of them can
  // live in a huge page.
  const bool large = bytes >= kHugePage;
  const std::size_t unit = large ? kHugePage : 4096;
  if (bytes > SIZE_MAX - 2 * kHugePage) return LimitExceeded("memory: " + std::to_string(bytes) + " bytes asked for, more than an address space holds");
  const std::size_t mapped = (bytes + unit - 1) / unit * unit;
  const std::size_t reserve = large ? mapped + kHugePage : mapped;
  void* place = mmap(nullptr, reserve, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (place == MAP_FAILED) {
    return LimitExceeded("memory: " + std::to_string(bytes) +
                         " bytes wanted, refused by the system; free memory or take a smaller model or --context");
  }
  auto* begin = static_cast<std::byte*>(place);
  if (large) {
    const auto address = reinterpret_cast<std::uintptr_t>(begin);
    const std::size_t skip = (kHugePage - address % kHugePage) % kHugePage;
    if (skip > 0) munmap(begin, skip);
    if (reserve - skip > mapped) munmap(begin + skip + mapped, reserve - skip - mapped);
    begin += skip;
    madvise(begin, mapped, MADV_HUGEPAGE);  // an answer of no is fine
  }
  buffer.data_ = begin;
  buffer.size_ = bytes;
  buffer.mapped_ = mapped;
  return buffer;
}

void Buffer::Clear() {
  if (data_ != nullptr) SKEIN_CHECK(madvise(data_, mapped_, MADV_DONTNEED) == 0);
}

Buffer::~Buffer() {
  if (data_ != nullptr) munmap(data_, mapped_);
}

Buffer& Buffer::operator=(Buffer&& other) noexcept {
  if (this != &other) {
    if (data_ != nullptr) munmap(data_, mapped_);
    data_ = std::exchange(other.data_, nullptr);
    size_ = std::exchange(other.size_, 0);
    mapped_ = std::exchange(other.mapped_, 0);
  }
  return *this;
}

}  // namespace skein
