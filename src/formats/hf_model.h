// SPDX-License-Identifier: Apache-2.0
//
// A Hugging Face folder as a model: config.json, safetensors in one file or in shards, the tokenizer's files.
// formats/hf_config.cc gives the configuration its meaning, formats/hf_model.cc opens the rest.
#pragma once

#include <boost/json/object.hpp>
#include <memory>
#include <string>

#include "base/status.h"
#include "formats/model_config.h"
#include "formats/model_file.h"

namespace skein::formats {

Result<std::unique_ptr<ModelFile>> OpenHfModel(const std::string& folder);

// What config.json and generation_config.json (may be empty) say. Not checked against tensors yet. Errors name the key.
Result<ModelConfig> ReadHfConfig(const boost::json::object& config, const boost::json::object& generation);

// The chat template of a folder: chat_template.jinja, or the one in tokenizer_config.json; empty without.
Result<std::string> ReadHfChatTemplate(const std::string& folder, const std::string& tokenizer_config_json);

// The file's text, or "" when it is not there.
Result<std::string> ReadOptional(const std::string& path);

inline constexpr std::uint64_t kTextFileBytesMax = 256u << 20;  // of any JSON or template beside the weights

}  // namespace skein::formats
