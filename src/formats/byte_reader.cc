// SPDX-License-Identifier: Apache-2.0
#include "formats/byte_reader.h"

#include <fmt/format.h>

#include <algorithm>

#include "formats/open_file.h"

namespace skein::formats {

bool ByteReader::Skip(std::uint64_t count) {
  if (count > remaining()) return Short(count);
  if (count <= filled_ - place_) {
    place_ += count;
  } else {
    place_ = filled_ = 0;  // what comes next is read from its place
  }
  position_ += count;
  return true;
}

bool ByteReader::TakeSlowly(std::byte* into, std::uint64_t count) {
  if (count > remaining()) return Short(count);
  while (count > 0) {
    if (place_ == filled_) {
      filled_ = static_cast<std::size_t>(std::min<std::uint64_t>(kBufferBytes, remaining()));
      place_ = 0;
      status_ = ReadAt(descriptor_, position_, std::span(buffer_.get(), filled_));
      if (!status_.ok()) {
        filled_ = 0;
        return false;
      }
    }
    const std::size_t piece = static_cast<std::size_t>(std::min<std::uint64_t>(count, filled_ - place_));
    std::memcpy(into, buffer_.get() + place_, piece);
    place_ += piece;
    position_ += piece;
    into += piece;
    count -= piece;
  }
  return true;
}

bool ByteReader::Short(std::uint64_t count) {
  status_ = InvalidFile(fmt::format("the file ends at byte {}, expected {} bytes from {} on", size_, count, position_));
  return false;
}

}  // namespace skein::formats
