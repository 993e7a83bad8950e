// SPDX-License-Identifier: Apache-2.0
//
// A model whose file another process has: a ModelFile that asks a ModelServer for its bytes. It has what computing needs, no tokenizer and
// no metadata. Several threads' requests are under way at once on one connection, and answered in the order of their asking; so is a long
// read's next piece while one comes.
#pragma once

#include <chrono>
#include <memory>

#include "base/descriptor.h"
#include "base/status.h"
#include "formats/model_file.h"

namespace skein::formats {

// `connection`: to a ModelServer. `patience`: how long it may be silent. Errors: kUnavailable when it closes or says nothing, kInvalidFile
// for a head that describes no sound model; later, of Read, also what the file's owner found.
Result<std::unique_ptr<ModelFile>> OpenRemoteModel(Descriptor connection, std::chrono::milliseconds patience = std::chrono::seconds(60));

}  // namespace skein::formats
