// SPDX-License-Identifier: Apache-2.0
//
// The configuration file: TOML whose keys are the flags' names. Keys outside tables are for every command that has
// them; a table named like a command ([run], [bench-model]) is for that one and wins.
#include <fmt/format.h>

#include <algorithm>
#include <fstream>
#include <sstream>

#include "base/edit_distance.h"
#include "base/options.h"

#define TOML_HEADER_ONLY 1
#define TOML_EXCEPTIONS 0
#define TOML_ENABLE_FORMATTERS 0
#include <toml++/toml.h>

namespace skein {
namespace {

// Longest file that is read; a configuration has a few lines.
constexpr std::uint64_t kFileBytesMax = 1 << 20;

// The values of a key as the texts that a flag would have: an array is a repeated flag, or a list with commas.
bool TextsOf(const toml::node& node, std::vector<std::string>& texts) {
  if (const auto* text = node.as_string()) {
    texts.push_back(text->get());
  } else if (const auto* number = node.as_integer()) {
    texts.push_back(fmt::format("{}", number->get()));
  } else if (const auto* real = node.as_floating_point()) {
    texts.push_back(fmt::format("{}", real->get()));
  } else if (const auto* truth = node.as_boolean()) {
    texts.push_back(truth->get() ? "true" : "false");
  } else if (const auto* array = node.as_array()) {
    for (const toml::node& item : *array) {
      if (item.is_array() || !TextsOf(item, texts)) return false;
    }
  } else {
    return false;
  }
  return true;
}

}  // namespace

Status FieldList::ReadFile(const std::string& path, std::string_view origin, std::string_view table,
                           std::span<const std::string> known_elsewhere) {
  std::ifstream file(path, std::ios::binary);
  std::string content(kFileBytesMax + 1, '\0');
  if (!file || !file.read(content.data(), static_cast<std::streamsize>(content.size())).eof()) {
    const bool opened = static_cast<bool>(file.is_open());
    return InvalidArgument(fmt::format("{} takes a TOML file of at most 1 MiB that can be read, found {}{}", origin,
                                       path, opened ? "" : " (cannot be opened)"),
                           "--config");
  }
  content.resize(static_cast<std::size_t>(file.gcount()));
  const toml::parse_result parsed = toml::parse(content, path);
  if (!parsed) {
    return InvalidFile(fmt::format("{} is not valid TOML: line {}: {}", path, parsed.error().source().begin.line,
                                   parsed.error().description()),
                       "--config");
  }
  const auto known = [&](const std::string& name) {
    return std::find(known_elsewhere.begin(), known_elsewhere.end(), name) != known_elsewhere.end();
  };
  const auto apply = [&](const toml::table& keys, bool whole_file) -> Status {
    for (const auto& [key, node] : keys) {
      const std::string name(key.str());
      if (whole_file && node.is_table() && (name == table || known(fmt::format("[{}]", name)))) continue;
      std::vector<std::string> texts;
      const bool readable = TextsOf(node, texts) && !texts.empty();
      SKEIN_RETURN_IF_ERROR(SetFromFile(name, fmt::format("{}: {}", path, name), readable ? &texts : nullptr,
                                        known_elsewhere));
    }
    return OkStatus();
  };
  SKEIN_RETURN_IF_ERROR(apply(parsed.table(), true));
  const toml::table* own = parsed.table()[table].as_table();
  return own == nullptr ? OkStatus() : apply(*own, false);
}

Status FieldList::SetFromFile(const std::string& name, const std::string& origin, std::vector<std::string>* texts,
                              std::span<const std::string> known_elsewhere) {
  Field* field = FindFlag(name);
  if (field != nullptr && field->flag_only_) {
    return InvalidArgument(fmt::format("{} cannot be set in a file, only as {}", origin, field->Shown()), name);
  }
  if (field == nullptr) {
    if (std::find(known_elsewhere.begin(), known_elsewhere.end(), name) != known_elsewhere.end()) return OkStatus();
    std::vector<std::string> names = FlagNames();
    names.insert(names.end(), known_elsewhere.begin(), known_elsewhere.end());
    const std::string nearest = NearestWord(name, names);
    return InvalidArgument(fmt::format("{} is no option; {}", origin, nearest.empty()
                                           ? "skein help docs lists them"
                                           : fmt::format("did you mean {}?", nearest)),
                           name);
  }
  if (texts == nullptr) {
    return InvalidArgument(fmt::format("{} takes {}, found nothing or a value of another kind", origin, field->Allowed()),
                           name);
  }
  if (std::holds_alternative<std::vector<int>*>(field->target_)) *texts = {fmt::format("{}", fmt::join(*texts, ","))};
  if (texts->size() > 1 && !std::holds_alternative<std::vector<std::string>*>(field->target_)) {
    return InvalidArgument(fmt::format("{} takes {}, found {} values", origin, field->Allowed(), texts->size()), name);
  }
  for (const std::string& text : *texts) SKEIN_RETURN_IF_ERROR(field->Set(text, OptionSource::kFile, origin));
  return OkStatus();
}

}  // namespace skein
