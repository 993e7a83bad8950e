// SPDX-License-Identifier: Apache-2.0
#include "formats/tokenizer_file.h"

#include <fmt/format.h>

#include <array>

#include "formats/gguf_model.h"
#include "formats/hf_model.h"
#include "formats/open_file.h"
#include "formats/single_gguf.h"
#include "formats/tokenizer_gguf.h"
#include "formats/tokenizer_json.h"

namespace skein::formats {
namespace {

Result<TokenizerFile> FromGguf(const std::string& path) {
  SKEIN_ASSIGN_OR_RETURN(const std::vector<GgufPart> parts, OpenGgufParts(path));
  TokenizerFile found;
  Result<TokenizerData> data = ReadTokenizerGguf(parts[0].gguf);
  if (!data.ok()) return data.status().WithContext(ShownPath(path));
  found.data = std::move(data).value();
  Result<std::string> source = ChatTemplateOf(parts[0].gguf);
  if (!source.ok()) return source.status().WithContext(ShownPath(path));
  found.chat_template = std::move(source).value();
  return found;
}

Result<TokenizerFile> FromFolder(const std::string& folder) {
  SKEIN_ASSIGN_OR_RETURN(const std::string tokenizer, ReadWhole(folder + "/tokenizer.json", kTextFileBytesMax));
  SKEIN_ASSIGN_OR_RETURN(const std::string settings, ReadOptional(folder + "/tokenizer_config.json"));
  TokenizerFile found;
  Result<TokenizerData> data = ReadTokenizerJson(tokenizer, settings);
  if (!data.ok()) return data.status().WithContext(ShownPath(folder));
  found.data = std::move(data).value();
  Result<std::string> source = ReadHfChatTemplate(folder, settings);
  if (!source.ok()) return source.status().WithContext(ShownPath(folder));
  found.chat_template = std::move(source).value();
  return found;
}

Result<TokenizerFile> FromJson(const std::string& path) {
  SKEIN_ASSIGN_OR_RETURN(const std::string text, ReadWhole(path, kTextFileBytesMax));
  Result<TokenizerData> data = ReadTokenizerJson(text, "");
  if (!data.ok()) return data.status().WithContext(ShownPath(path));
  return TokenizerFile{std::move(data).value(), ""};
}

}  // namespace

Result<TokenizerFile> OpenTokenizer(const std::string& path) {
  SKEIN_ASSIGN_OR_RETURN(const PathKind kind, KindOf(path));
  if (kind == PathKind::kFolder) {
    SKEIN_ASSIGN_OR_RETURN(const PathKind inside, KindOf(path + "/tokenizer.json"));
    if (inside != PathKind::kNothing) return FromFolder(path);
    SKEIN_ASSIGN_OR_RETURN(const PathKind config, KindOf(path + "/config.json"));
    if (config != PathKind::kNothing) {
      return InvalidFile(fmt::format("{}: tokenizer.json is missing", ShownPath(path)), "tokenizer.json");
    }
    SKEIN_ASSIGN_OR_RETURN(const std::string gguf, SingleGgufIn(path));
    return FromGguf(gguf);
  }
  SKEIN_ASSIGN_OR_RETURN(const OpenFile file, OpenFile::Open(path));
  std::array<char, 1> first = {};
  if (file.size() == 0) return InvalidFile(fmt::format("{} is empty", ShownPath(path)), "model");
  SKEIN_RETURN_IF_ERROR(ReadAt(file.descriptor(), 0, std::as_writable_bytes(std::span(first))));
  const bool json = path.ends_with(".json") || std::string_view("{ \n\r\t").find(first[0]) != std::string_view::npos;
  return json ? FromJson(path) : FromGguf(path);
}

}  // namespace skein::formats
