// SPDX-License-Identifier: Apache-2.0
//
// skein inspect: what a model's files say, from headers alone.
#include <fmt/format.h>

#include <map>

#include "api/machine.h"
#include "base/json_writer.h"
#include "commands.h"
#include "formats/model_file.h"
#include "model/memory.h"
#include "model/model.h"
#include "model_cache.h"

namespace skein::app {
namespace {

std::string ShapeText(const formats::TensorInfo& tensor) { return fmt::format("{}", fmt::join(tensor.shape, "×")); }

Status WriteJson(const formats::ModelFile& file, const model::MemoryAnswer& memory, int context_tokens, Context& context) {
  JsonWriter json;
  json.BeginObject().Key("metadata").BeginObject();
  for (const formats::MetadataEntry& entry : file.metadata()) json.Key(entry.key).Raw(entry.json);
  json.EndObject().Key("tensors").BeginArray();
  for (const formats::TensorInfo& tensor : file.tensors()) {
    json.BeginObject().Member("name", tensor.file_name).Key("shape").BeginArray();
    for (const std::uint64_t size : tensor.shape) json.Value(size);
    json.EndArray().Member("format", InfoOf(tensor.dtype).name).Member("bytes", tensor.bytes).EndObject();
  }
  const formats::ModelConfig& config = file.config();
  json.EndArray().Key("model").BeginObject();
  json.Member("name", config.name).Member("architecture", config.architecture).Member("parameters", config.parameters);
  json.Member("weight_format", config.weight_format).Member("layers", config.layers).Member("hidden", config.hidden);
  json.Member("heads", config.heads).Member("kv_heads", config.kv_heads).Member("head_dim", config.head_dim);
  json.Member("vocabulary", config.vocabulary).Member("context", config.context).EndObject();
  json.Key("memory").BeginObject();
  json.Member("weights_bytes", memory.need.weights_bytes).Member("kv_bytes_per_token", memory.need.kv_bytes_per_token);
  json.Member("kv_bytes", memory.need.kv_bytes).Member("scratch_bytes", memory.need.scratch_bytes);
  json.Member("context", context_tokens).Member("total_bytes", memory.need.total());
  json.Member("arithmetic", NameOf(memory.arithmetic)).Member("kv_dtype", NameOf(memory.kv_type)).EndObject().EndObject();
  return context.out().Write(json.Take() + "\n");
}

Status WriteText(const formats::ModelFile& file, const model::MemoryAnswer& memory, int context_tokens, Context& context) {
  const formats::ModelConfig& config = file.config();
  std::string out = fmt::format("{}: {}, {} parameters, mostly {}\n", config.name, config.architecture,
                                config.parameters, config.weight_format);
  out += fmt::format("{} layers, hidden {}, {} heads on {} KV heads of {}, vocabulary {}, context {}\n\n", config.layers,
                     config.hidden, config.heads, config.kv_heads, config.head_dim, config.vocabulary, config.context);
  out += "Metadata\n";
  for (const formats::MetadataEntry& entry : file.metadata()) {
    std::string value = entry.json;
    if (value.size() > 100) {
      std::size_t cut = 97;
      while ((static_cast<unsigned char>(value[cut]) & 0xc0) == 0x80) --cut;
      value = value.substr(0, cut) + "…";
    }
    out += fmt::format("  {:44} {}\n", entry.key, value);
  }
  out += fmt::format("\nTensors ({})\n", file.tensors().size());
  for (const formats::TensorInfo& tensor : file.tensors()) {
    out += fmt::format("  {:34} {:14} {:6} {:>10}\n", tensor.file_name, ShapeText(tensor), InfoOf(tensor.dtype).name,
                       model::ShownBytes(tensor.bytes));
  }
  const model::MemoryNeed& need = memory.need;
  out += fmt::format(
      "\nMemory with a context of {} tokens: {}\n  weights {}, KV cache {} ({} bytes a token, {}), scratch {}\n"
      "  arithmetic {}\n",
      context_tokens, model::ShownBytes(need.total()), model::ShownBytes(need.weights_bytes),
      model::ShownBytes(need.kv_bytes), need.kv_bytes_per_token, NameOf(memory.kv_type),
      model::ShownBytes(need.scratch_bytes), NameOf(memory.arithmetic));
  return context.out().Write(out);
}

}  // namespace

void InspectOptions::Describe(FieldList& fields) {
  fields.AddPositional("MODEL", &model, true, "a GGUF file, a Hugging Face folder, a name, or default");
  machine.Describe(fields);
  output.Describe(fields);
}

Status RunInspect(const InspectOptions& options, Context& context) {
  SKEIN_ASSIGN_OR_RETURN(const std::string path, ResolveModel(options.model));
  SKEIN_ASSIGN_OR_RETURN(const std::unique_ptr<formats::ModelFile> file, formats::ModelFile::Open(path));
  SKEIN_ASSIGN_OR_RETURN(const api::Machine machine, api::ResolveMachine(options.machine.Resolved()));
  const int tokens = machine.context > 0 ? machine.context : file->config().context;
  SKEIN_ASSIGN_OR_RETURN(const model::MemoryAnswer memory,
                         api::MemoryFor(*file, machine, tokens));
  return context.json() ? WriteJson(*file, memory, tokens, context) : WriteText(*file, memory, tokens, context);
}

}  // namespace skein::app
