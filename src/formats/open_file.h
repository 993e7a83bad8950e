// SPDX-License-Identifier: Apache-2.0
//
// OpenFile is a regular file open for reading, with its size. Opening never blocks and never touches a device or a
// pipe. The readers of this module start here.
//
// Thread rule: ReadAt may be called from several threads.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>

#include "base/status.h"

namespace skein::formats {

enum class PathKind { kNothing, kFile, kFolder, kOther };

// What stands at `path`, links followed. A path that cannot be looked at is kMissing.
Result<PathKind> KindOf(const std::string& path);

// `path` for a message of one line: control characters are escaped, a long one is cut in the middle.
std::string ShownPath(std::string_view path);

class OpenFile {
 public:
  // Errors: kInvalidArgument when there is nothing, kInvalidFile when it is no regular file, kMissing without
  // permission. Messages name the path.
  static Result<OpenFile> Open(const std::string& path);

  OpenFile() = default;
  OpenFile(OpenFile&& other) noexcept;
  OpenFile& operator=(OpenFile&& other) noexcept;
  OpenFile(const OpenFile&) = delete;
  OpenFile& operator=(const OpenFile&) = delete;
  ~OpenFile();

  int descriptor() const { return descriptor_; }
  std::uint64_t size() const { return size_; }
  int Release();  // the descriptor, which the caller then owns

 private:
  int descriptor_ = -1;
  std::uint64_t size_ = 0;
};

// Fills `into` from `offset` of the file. A file that ends before is kInvalidFile: "the file ends …".
Status ReadAt(int descriptor, std::uint64_t offset, std::span<std::byte> into);

// The whole of a file of at most `limit` bytes. Errors name the path.
Result<std::string> ReadWhole(const std::string& path, std::uint64_t limit);

}  // namespace skein::formats
