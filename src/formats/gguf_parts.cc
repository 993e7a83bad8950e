// SPDX-License-Identifier: Apache-2.0
//
// Files of several parts: NAME-00001-of-00003.gguf and so on. Every part is a GGUF file of its own and says which
// part it is (split.no, from 0) and how many there are (split.count); the first carries the model's metadata.
#include <fmt/format.h>

#include <filesystem>

#include "formats/gguf_model.h"

namespace skein::formats {
namespace {

constexpr std::int64_t kPartsMax = 512;
constexpr std::size_t kEndingBytes = std::string_view("-00001-of-00002.gguf").size();

Result<GgufPart> OpenPart(const std::string& path) {
  GgufPart part;
  part.path = path;
  SKEIN_ASSIGN_OR_RETURN(part.file, OpenFile::Open(path));
  Result<Gguf> gguf = Gguf::Parse(part.file.descriptor(), part.file.size());
  if (!gguf.ok()) return gguf.status().WithContext(ShownPath(path));
  part.gguf = std::move(gguf).value();
  return part;
}

std::string EndingOf(std::int64_t number, std::int64_t count) {
  return fmt::format("-{:05}-of-{:05}.gguf", number + 1, count);
}

Status CheckPart(const Gguf& gguf, std::int64_t number, std::int64_t count) {
  SKEIN_ASSIGN_OR_RETURN(const std::int64_t own_count, gguf.Integer("split.count", 0, kPartsMax));
  SKEIN_ASSIGN_OR_RETURN(const std::int64_t own_number, gguf.Integer("split.no", 0, kPartsMax));
  if (own_count == count && own_number == number) return OkStatus();
  return InvalidFile(fmt::format("split.no and split.count say part {} of {}, the file's name says part {} of {}",
                                 own_number + 1, own_count, number + 1, count),
                     "split.no");
}

Status CheckTensorCount(const std::vector<GgufPart>& parts) {
  std::uint64_t found = 0;
  for (const GgufPart& part : parts) found += part.gguf.tensors().size();
  SKEIN_ASSIGN_OR_RETURN(const std::int64_t wanted,
                         parts[0].gguf.Integer("split.tensors.count", 0, INT32_MAX, static_cast<std::int64_t>(found)));
  if (static_cast<std::uint64_t>(wanted) == found) return OkStatus();
  return InvalidFile(fmt::format("split.tensors.count is {}, the parts have {} tensors", wanted, found),
                     "split.tensors.count");
}

}  // namespace

Result<std::vector<GgufPart>> OpenGgufParts(const std::string& path) {
  std::vector<GgufPart> parts;
  SKEIN_ASSIGN_OR_RETURN(GgufPart given, OpenPart(path));
  const Result<std::int64_t> count = given.gguf.Integer("split.count", 0, kPartsMax, 0);
  if (!count.ok()) return count.status().WithContext(ShownPath(path));
  if (*count <= 1) {
    parts.push_back(std::move(given));
    return parts;
  }
  const Result<std::int64_t> number = given.gguf.Integer("split.no", 0, *count - 1);
  if (!number.ok()) return number.status().WithContext(ShownPath(path));
  if (!path.ends_with(EndingOf(*number, *count))) {
    return InvalidFile(fmt::format("{}: split.count says part {} of {}, so the file's name should end in {}",
                                   ShownPath(path), *number + 1, *count, EndingOf(*number, *count)),
                       "split.count");
  }
  const std::string stem = path.substr(0, path.size() - kEndingBytes);
  for (std::int64_t i = 0; i < *count; ++i) {
    if (i == *number) {
      parts.push_back(std::move(given));
      continue;
    }
    Result<GgufPart> part = OpenPart(stem + EndingOf(i, *count));
    if (!part.ok() && part.status().code() == Code::kInvalidArgument) {
      return InvalidFile(fmt::format("{} is part {} of {}, and part {} is not beside it: {}", ShownPath(path),
                                     *number + 1, *count, i + 1, part.status().message()),
                         "split.count");
    }
    if (!part.ok()) return part.status();
    if (Status fits = CheckPart(part->gguf, i, *count); !fits.ok()) return fits.WithContext(ShownPath(part->path));
    parts.push_back(std::move(part).value());
  }
  if (Status fits = CheckTensorCount(parts); !fits.ok()) return fits.WithContext(ShownPath(path));
  return parts;
}

}  // namespace skein::formats
