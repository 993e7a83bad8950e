// SPDX-License-Identifier: Apache-2.0
//
// Deciding what stands at a path, and reading bytes of what was opened.
#include "formats/model_file.h"

#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

#include <filesystem>
#include <optional>

#include "base/checked.h"
#include "formats/gguf_model.h"
#include "formats/hf_model.h"
#include "formats/open_file.h"
#include "formats/opened_model.h"
#include "formats/single_gguf.h"

namespace skein::formats {

Result<std::unique_ptr<ModelFile>> ModelFile::Open(const std::string& path) {
  SKEIN_ASSIGN_OR_RETURN(const PathKind kind, KindOf(path));
  if (kind != PathKind::kFolder) return OpenGgufModel(path);  // and says so of what is no file
  SKEIN_ASSIGN_OR_RETURN(const PathKind config, KindOf(path + "/config.json"));
  if (config != PathKind::kNothing) return OpenHfModel(path);
  SKEIN_ASSIGN_OR_RETURN(const std::string gguf, SingleGgufIn(path));
  return OpenGgufModel(gguf);
}

const TensorInfo* ModelFile::Find(std::string_view name) const {
  for (const TensorInfo& tensor : tensors_) {
    if (tensor.name == name) return &tensor;
  }
  return nullptr;
}

Status ModelFile::Read(const TensorInfo& tensor, std::uint64_t offset, std::span<std::byte> into) const {
  const std::optional<std::uint64_t> end = CheckedAdd(offset, into.size());
  SKEIN_CHECK(end.has_value());
  SKEIN_CHECK(*end <= tensor.bytes);
  SKEIN_CHECK(static_cast<std::size_t>(tensor.file) < descriptors_.size());
  const Status read = ReadAt(descriptors_[static_cast<std::size_t>(tensor.file)], tensor.offset + offset, into);
  if (read.ok()) return read;
  return Status(read.code(), fmt::format("{}: tensor {}: {}", ShownPath(path_), tensor.file_name, read.message()),
                tensor.file_name);
}

// From a file whole rows come faster than parts of them.
Status ModelFile::ReadRows(const TensorInfo& tensor, std::uint64_t first_row, std::uint64_t /*begin*/, std::uint64_t /*end*/,
                           std::span<std::byte> into) const {
  const std::optional<std::uint64_t> row_bytes = RowBytes(tensor.dtype, tensor.shape.back());
  SKEIN_CHECK(row_bytes.has_value());
  return Read(tensor, first_row * *row_bytes, into);
}

std::string ModelFile::identity() const {
  std::string identity;
  for (const int descriptor : descriptors_) {
    struct stat found {};
    static_cast<void>(::fstat(descriptor, &found));  // an open file has an answer
    identity += fmt::format("{} {} {}.{:09} ", found.st_ino, found.st_size, found.st_mtim.tv_sec, found.st_mtim.tv_nsec);
  }
  return identity;
}

OpenedModel::~OpenedModel() {
  for (const int descriptor : descriptors_) ::close(descriptor);
}

int OpenedModel::Own(OpenFile file) {
  descriptors_.push_back(file.Release());
  return static_cast<int>(descriptors_.size()) - 1;
}

Result<std::string> SingleGgufIn(const std::string& folder) {
  std::error_code error;
  std::string found;
  std::size_t count = 0;
  for (std::filesystem::directory_iterator entry(folder, error), end; !error && entry != end; entry.increment(error)) {
    const std::string name = entry->path().filename().string();
    if (!name.ends_with(".gguf")) continue;
    const bool later_part = name.find("-of-") != std::string::npos && name.find("-00001-of-") == std::string::npos;
    if (later_part) continue;
    found = entry->path().string();
    ++count;
  }
  if (error) return MissingError(fmt::format("{} cannot be read: {}", ShownPath(folder), error.message()), "model");
  if (count == 1) return found;
  const std::string_view why = count == 0 ? "no config.json of a Hugging Face model and no .gguf file"
                                          : "no config.json, and more than one .gguf file: name the file";
  return InvalidFile(fmt::format("{} is a folder with {}", ShownPath(folder), why), "config.json");
}

}  // namespace skein::formats
