// SPDX-License-Identifier: Apache-2.0
//
// OutputFile writes a file that is there whole or not at all: everything goes to a file without a name in the same
// folder, and Commit names it, so that nothing is left when the program is killed. Where the file system has no such
// files, a temporary one stands beside the path. A full disk is an error, and what was written by then is removed. A
// path that is no regular file (a device, a pipe) is written directly.
#pragma once

#include <cstddef>
#include <span>
#include <string>
#include <string_view>

#include "base/status.h"

namespace skein {

class OutputFile {
 public:
  // Errors: kInvalidArgument when the path cannot be written, with the reason.
  static Result<OutputFile> Create(const std::string& path);
  // Removes what was not committed.
  ~OutputFile();
  OutputFile(OutputFile&& other) noexcept;
  OutputFile& operator=(OutputFile&&) = delete;
  OutputFile(const OutputFile&) = delete;

  Status Write(std::span<const std::byte> bytes);
  Status Write(std::string_view text) { return Write(std::as_bytes(std::span(text.data(), text.size()))); }
  // Flushes, closes and gives the file its name. Nothing may be written afterwards.
  Status Commit();

 private:
  OutputFile() = default;
  Status Flush();
  void Discard();
  Status Name();

  std::string path_;
  std::string temporary_;  // the name until Commit; empty: none (nameless_), or `path_` is written directly
  bool nameless_ = false;
  int descriptor_ = -1;
  std::string buffer_;
};

// Writes all of `bytes` to a descriptor. kMissing with the reason when it cannot (a full disk); a reader that has left
// (EPIPE) is kCancelled.
Status WriteAll(int descriptor, std::span<const std::byte> bytes, std::string_view shown_path);

}  // namespace skein
