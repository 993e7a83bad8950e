// SPDX-License-Identifier: Apache-2.0
//
// A GGUF file, or a file of several parts, as a model: the meaning of its keys and of its tensors' names.
// formats/model_file.cc comes here for regular files, formats/tokenizer_file.cc for a vocabulary.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "base/status.h"
#include "formats/gguf.h"
#include "formats/model_file.h"
#include "formats/open_file.h"

namespace skein::formats {

struct GgufPart {
  std::string path;
  OpenFile file;
  Gguf gguf;
};

// The parts of the file at `path` in order, one for an ordinary file; the first has the metadata. Any part may be
// given. Errors name the part's path.
Result<std::vector<GgufPart>> OpenGgufParts(const std::string& path);

Result<std::unique_ptr<ModelFile>> OpenGgufModel(const std::string& path);

// The chat template's source; empty without one.
Result<std::string> ChatTemplateOf(const Gguf& gguf);

}  // namespace skein::formats
