// SPDX-License-Identifier: Apache-2.0
#include "formats/hf_model.h"

#include <fmt/format.h>

#include <boost/json/serialize.hpp>
#include <filesystem>
#include <map>
#include <set>
#include <unordered_map>

#include "formats/json_document.h"
#include "formats/opened_model.h"
#include "formats/safetensors.h"
#include "formats/tokenizer_json.h"
#include "formats/weight_table.h"

namespace skein::formats {
namespace {

namespace json = boost::json;

constexpr std::size_t kShardsMax = 512;
constexpr const char* kWeights = "model.safetensors";
constexpr const char* kIndex = "model.safetensors.index.json";

Status BadMap(std::string_view what, std::string_view name) {
  return InvalidFile(fmt::format("{}: weight_map {}", kIndex, what), std::string(name));
}

// Name → shard, with shards that are plain names of files in the folder.
Result<std::map<std::string, std::string>> ReadIndex(const std::string& text) {
  SKEIN_ASSIGN_OR_RETURN(const json::object index, ParseJsonObject(text, kIndex));
  const json::value* map = index.if_contains("weight_map");
  if (map == nullptr || !map->is_object()) return BadMap("is missing or no object", "weight_map");
  std::map<std::string, std::string> shards;
  for (const auto& [key, value] : map->get_object()) {
    const std::string name(key.data(), key.size());
    if (!value.is_string()) return BadMap(fmt::format("should name a shard for {}", name), name);
    const std::string shard(value.get_string().data(), value.get_string().size());
    const bool plain = !shard.empty() && shard.find_first_of(std::string_view("/\\\0", 3)) == std::string::npos &&
                       shard.ends_with(".safetensors");
    if (!plain) {
      return BadMap(
          fmt::format("has the shard {} for {}, expected a .safetensors file of the folder", ShownPath(shard), name),
          name);
    }
    shards.emplace(name, shard);
  }
  return shards;
}

Result<std::vector<FoundTensor>> ReadShard(const std::string& folder, const std::string& name, OpenedModel* model) {
  Result<OpenFile> file = OpenFile::Open(folder + "/" + name);
  if (!file.ok() && file.status().code() == Code::kInvalidArgument) {
    return InvalidFile(fmt::format("{} is missing", name), name);
  }
  if (!file.ok()) return file.status();
  const std::uint64_t size = file->size();
  const int index = model->Own(std::move(file).value());
  Result<std::vector<FoundTensor>> found = ReadSafetensors(model->descriptor(index), size, index);
  if (!found.ok()) return found.status().WithContext(name);
  return found;
}

// The tensors of all shards that the index gives to that shard; others of the same name are left out.
Result<std::vector<FoundTensor>> ReadShards(const std::string& folder, const std::string& index_text,
                                            OpenedModel* model) {
  SKEIN_ASSIGN_OR_RETURN(const auto map, ReadIndex(index_text));
  std::set<std::string> shards;
  for (const auto& [name, shard] : map) shards.insert(shard);
  if (shards.size() > kShardsMax) return BadMap(fmt::format("names more than {} shards", kShardsMax), "weight_map");
  std::vector<FoundTensor> found;
  for (const std::string& shard : shards) {
    SKEIN_ASSIGN_OR_RETURN(std::vector<FoundTensor> tensors, ReadShard(folder, shard, model));
    for (FoundTensor& tensor : tensors) {
      const auto place = map.find(tensor.info.file_name);
      if (place != map.end() && place->second == shard) found.push_back(std::move(tensor));
    }
  }
  std::set<std::string_view> names;
  for (const FoundTensor& tensor : found) names.insert(tensor.info.file_name);
  for (const auto& [name, shard] : map) {
    if (!names.contains(name)) return BadMap(fmt::format("says that {} is in {}, which lacks it", name, shard), name);
  }
  return found;
}

Result<std::vector<FoundTensor>> ReadWeights(const std::string& folder, OpenedModel* model) {
  SKEIN_ASSIGN_OR_RETURN(const PathKind whole, KindOf(folder + "/" + kWeights));
  if (whole != PathKind::kNothing) return ReadShard(folder, kWeights, model);
  SKEIN_ASSIGN_OR_RETURN(const PathKind index, KindOf(folder + "/" + kIndex));
  if (index == PathKind::kNothing) {
    return InvalidFile(fmt::format("the folder has neither {} nor {}", kWeights, kIndex), kWeights);
  }
  SKEIN_ASSIGN_OR_RETURN(const std::string text, ReadWhole(folder + "/" + kIndex, kTextFileBytesMax));
  return ReadShards(folder, text, model);
}

Status ReadTokenizer(const std::string& folder, OpenedModel* model) {
  SKEIN_ASSIGN_OR_RETURN(const PathKind kind, KindOf(folder + "/tokenizer.json"));
  if (kind == PathKind::kNothing) return InvalidFile("tokenizer.json is missing", "tokenizer.json");
  SKEIN_ASSIGN_OR_RETURN(const std::string tokenizer, ReadWhole(folder + "/tokenizer.json", kTextFileBytesMax));
  SKEIN_ASSIGN_OR_RETURN(const std::string settings, ReadOptional(folder + "/tokenizer_config.json"));
  SKEIN_ASSIGN_OR_RETURN(model->tokenizer_, ReadTokenizerJson(tokenizer, settings));
  const std::size_t pieces = model->tokenizer_.pieces.size();
  if (pieces > static_cast<std::size_t>(model->config_.vocabulary)) {
    return InvalidFile(fmt::format("tokenizer.json has ids up to {}, but vocab_size in config.json is {}", pieces - 1,
                                   model->config_.vocabulary),
                       "vocab_size");
  }
  SKEIN_ASSIGN_OR_RETURN(model->chat_template_, ReadHfChatTemplate(folder, settings));
  return OkStatus();
}

Status Fill(const std::string& folder, OpenedModel* model) {
  SKEIN_ASSIGN_OR_RETURN(const std::string config_text, ReadWhole(folder + "/config.json", kTextFileBytesMax));
  SKEIN_ASSIGN_OR_RETURN(const json::object config, ParseJsonObject(config_text, "config.json"));
  SKEIN_ASSIGN_OR_RETURN(const std::string generation_text, ReadOptional(folder + "/generation_config.json"));
  json::object generation;
  if (!generation_text.empty()) {
    SKEIN_ASSIGN_OR_RETURN(generation, ParseJsonObject(generation_text, "generation_config.json"));
  }
  SKEIN_ASSIGN_OR_RETURN(model->config_, ReadHfConfig(config, generation));
  std::filesystem::path named = std::filesystem::path(folder).lexically_normal();
  model->config_.name = (named.has_filename() ? named.filename() : named.parent_path().filename()).string();
  SKEIN_ASSIGN_OR_RETURN(const std::vector<FoundTensor> found, ReadWeights(folder, model));
  SKEIN_ASSIGN_OR_RETURN(model->tensors_, PickTensors(model->config_, WeightNaming::kHuggingFace, found));
  model->config_.parameters = CountParameters(model->tensors_);
  model->config_.weight_format = MostFrequentFormat(model->tensors_);
  for (const auto& [key, value] : config) {
    model->metadata_.push_back({std::string(key.data(), key.size()), json::serialize(value)});
  }
  return ReadTokenizer(folder, model);
}

}  // namespace

Result<std::unique_ptr<ModelFile>> OpenHfModel(const std::string& folder) {
  auto model = std::make_unique<OpenedModel>();
  model->path_ = folder;
  if (Status filled = Fill(folder, model.get()); !filled.ok()) return filled.WithContext(ShownPath(folder));
  return std::unique_ptr<ModelFile>(std::move(model));
}

Result<std::string> ReadOptional(const std::string& path) {
  SKEIN_ASSIGN_OR_RETURN(const PathKind kind, KindOf(path));
  if (kind == PathKind::kNothing) return std::string();
  return ReadWhole(path, kTextFileBytesMax);
}

Result<std::string> ReadHfChatTemplate(const std::string& folder, const std::string& tokenizer_config_json) {
  SKEIN_ASSIGN_OR_RETURN(std::string own_file, ReadOptional(folder + "/chat_template.jinja"));
  if (!own_file.empty() || tokenizer_config_json.empty()) return own_file;
  SKEIN_ASSIGN_OR_RETURN(const json::object settings, ParseJsonObject(tokenizer_config_json, "tokenizer_config.json"));
  const json::value* found = settings.if_contains("chat_template");
  if (found == nullptr || found->is_null()) return std::string();
  const auto text = [](const json::value& value) {
    return std::string(value.get_string().data(), value.get_string().size());
  };
  if (found->is_string()) return text(*found);
  const Status odd = InvalidFile(
      "tokenizer_config.json: chat_template should be a string or a list of objects with "
      "name and template",
      "chat_template");
  if (!found->is_array()) return odd;
  std::string chosen;
  for (const json::value& item : found->get_array()) {  // several by name: the one called default, or the first
    const json::object* fields = item.if_object();
    const json::value* name = fields == nullptr ? nullptr : fields->if_contains("name");
    const json::value* source = fields == nullptr ? nullptr : fields->if_contains("template");
    if (name == nullptr || source == nullptr || !name->is_string() || !source->is_string()) return odd;
    if (chosen.empty() || name->get_string() == "default") chosen = text(*source);
  }
  return chosen;
}

}  // namespace skein::formats
