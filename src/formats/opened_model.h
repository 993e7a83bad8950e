// SPDX-License-Identifier: Apache-2.0
//
// OpenedModel is the ModelFile that the readers of this module fill; it owns the files' descriptors. Only
// formats/gguf_model.cc and formats/hf_model.cc include this.
#pragma once

#include "formats/model_file.h"
#include "formats/open_file.h"

namespace skein::formats {

class OpenedModel final : public ModelFile {
 public:
  OpenedModel() = default;
  OpenedModel(const OpenedModel&) = delete;
  OpenedModel& operator=(const OpenedModel&) = delete;
  ~OpenedModel() override;

  // Takes the file over; the answer is its index for TensorInfo::file.
  int Own(OpenFile file);
  int descriptor(int file) const { return descriptors_[static_cast<std::size_t>(file)]; }

  using ModelFile::chat_template_;
  using ModelFile::config_;
  using ModelFile::metadata_;
  using ModelFile::path_;
  using ModelFile::tensors_;
  using ModelFile::tokenizer_;
};

}  // namespace skein::formats
