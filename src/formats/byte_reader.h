// SPDX-License-Identifier: Apache-2.0
//
// ByteReader reads a file from its beginning through a buffer of fixed size and always knows how many bytes remain,
// so that a size found in the file can be compared before anything is allocated. Used by the GGUF parser, by one
// thread.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <memory>
#include <string>
#include <type_traits>

#include "base/status.h"

namespace skein::formats {

class ByteReader {
 public:
  ByteReader(int descriptor, std::uint64_t size)
      : descriptor_(descriptor), size_(size), buffer_(std::make_unique_for_overwrite<std::byte[]>(kBufferBytes)) {}

  std::uint64_t position() const { return position_; }
  std::uint64_t remaining() const { return size_ - position_; }

  // Each gives false when fewer bytes remain or reading failed; status() then says which.
  template <typename T>
  bool Take(T* value) {
    static_assert(std::is_trivially_copyable_v<T>);
    return TakeBytes(reinterpret_cast<std::byte*>(value), sizeof(T));
  }
  bool TakeBytes(std::byte* into, std::uint64_t count) {
    if (count <= filled_ - place_) {
      std::memcpy(into, buffer_.get() + place_, count);
      place_ += count;
      position_ += count;
      return true;
    }
    return TakeSlowly(into, count);
  }
  // Requires of the caller nothing: `count` is compared with what remains first.
  bool TakeString(std::string* text, std::uint64_t count) {
    if (count > remaining()) return Short(count);
    text->resize(count);
    return TakeBytes(reinterpret_cast<std::byte*>(text->data()), count);
  }
  bool Skip(std::uint64_t count);

  const Status& status() const { return status_; }

 private:
  static constexpr std::size_t kBufferBytes = 128 * 1024;

  bool TakeSlowly(std::byte* into, std::uint64_t count);
  bool Short(std::uint64_t count);

  int descriptor_;
  std::uint64_t size_;
  std::uint64_t position_ = 0;  // of the next byte, in the file
  std::unique_ptr<std::byte[]> buffer_;
  std::size_t place_ = 0;   // of the next byte, in the buffer
  std::size_t filled_ = 0;  // bytes of the buffer that are valid
  Status status_;
};

}  // namespace skein::formats
