// SPDX-License-Identifier: Apache-2.0
//
// Memory: how much this process may still take, and the sentence that refuses what does not fit. Asked before anything large
// is loaded, so that a model that is too big is a line with numbers and never a killed process.
#pragma once

#include <cstdint>
#include <string>

#include "base/status.h"

namespace skein::model {

struct MemoryLimit {
  std::uint64_t bytes = 0;  // that may still be taken
  std::string reason;       // what sets it: "control group", "free memory", "address space (ulimit -v)"
};

// The least of: the memory limits of this process's control group and those above it (versions 1 and 2; cached file pages
// count as free), the memory that the system calls available, and what RLIMIT_AS leaves. `root` is "" but in tests,
// where it is a folder with proc/ and sys/ of its own.
MemoryLimit AvailableMemory(const std::string& root = "");

// What a model wants.
struct MemoryNeed {
  std::uint64_t weights_bytes = 0;       // packed
  std::uint64_t kv_bytes_per_token = 0;
  std::uint64_t kv_bytes = 0;            // for the whole store
  std::uint64_t scratch_bytes = 0;       // of the decoder, and while loading
  std::uint64_t total() const { return weights_bytes + kv_bytes + scratch_bytes; }
};

// ok, or kLimit naming what is needed, what there is and what sets it.
Status CheckMemory(const MemoryNeed& need, const MemoryLimit& limit);

// "96.6 MB", "2.47 GB"
std::string ShownBytes(std::uint64_t bytes);

}  // namespace skein::model
