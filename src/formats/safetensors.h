// SPDX-License-Identifier: Apache-2.0
//
// The safetensors container: one file's tensor descriptions, read and checked, nothing of models.
//
// Source: the format's description by Hugging Face. The bytes: u64 header length (little-endian), the header, which is
// a JSON object of name → {dtype, shape, data_offsets: [begin, end) from the header's end}, then the data, which the
// tensors cover exactly.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "base/status.h"
#include "formats/weight_table.h"

namespace skein::formats {

// Requires: `descriptor` is a regular file open for reading, of `size` bytes. TensorInfo::offset is from the file's
// beginning, TensorInfo::file is `file`. Errors name the tensor or "header".
Result<std::vector<FoundTensor>> ReadSafetensors(int descriptor, std::uint64_t size, int file);

}  // namespace skein::formats
