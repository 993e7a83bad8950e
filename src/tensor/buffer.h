// SPDX-License-Identifier: Apache-2.0
//
// Buffer owns zeroed, page-aligned memory from mmap, in 2 MiB pages where the kernel grants them (it is only asked;
// works without). Moved, never copied.
#pragma once

#include <cstddef>
#include <utility>

#include "base/status.h"

namespace skein {

class Buffer {
 public:
  Buffer() = default;
  // `bytes` of zeros. kLimit with both numbers when the memory cannot be had.
  static Result<Buffer> Allocate(std::size_t bytes);
  ~Buffer();
  Buffer(Buffer&& other) noexcept : data_(std::exchange(other.data_, nullptr)), size_(std::exchange(other.size_, 0)),
                                    mapped_(std::exchange(other.mapped_, 0)) {}
  Buffer& operator=(Buffer&& other) noexcept;
  Buffer(const Buffer&) = delete;
  Buffer& operator=(const Buffer&) = delete;

  // Zeros again; the memory is given back until it is touched.
  void Clear();

  std::byte* data() { return data_; }
  const std::byte* data() const { return data_; }
  std::size_t size() const { return size_; }
  template <typename T>
  T* as() { return reinterpret_cast<T*>(data_); }
  template <typename T>
  const T* as() const { return reinterpret_cast<const T*>(data_); }

 private:
  std::byte* data_ = nullptr;
  std::size_t size_ = 0;
  std::size_t mapped_ = 0;  // bytes of the mapping
};

}  // namespace skein
