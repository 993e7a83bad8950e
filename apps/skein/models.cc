// SPDX-License-Identifier: Apache-2.0
//
// skein models: what lies in the model cache.
#include <fmt/format.h>

#include "base/json_writer.h"
#include "commands.h"
#include "model/memory.h"
#include "model_cache.h"

namespace skein::app {

void ModelsOptions::Describe(FieldList& fields) {
  fields.Group("Models");
  fields.Add("path", "NAME", &path, "only the path that this MODEL means").FlagOnly();
  output.Describe(fields);
}

Status RunModels(const ModelsOptions& options, Context& context) {
  if (!options.path.empty()) {
    SKEIN_ASSIGN_OR_RETURN(const std::string path, ResolveModel(options.path));
    return context.out().Write(path + "\n");
  }
  const std::vector<CachedModel> models = CachedModels();
  const auto is_default = [](const CachedModel& model) { return model.path == DefaultModelPath(); };
  if (context.json()) {
    JsonWriter json;
    json.BeginObject().Member("folder", ModelsFolder()).Key("models").BeginArray();
    for (const CachedModel& model : models) {
      json.BeginObject().Member("name", model.name).Member("path", model.path).Member("bytes", model.bytes);
      json.Member("default", is_default(model)).EndObject();
    }
    json.EndArray().EndObject();
    return context.out().Write(json.Take() + "\n");
  }
  for (const CachedModel& model : models) {
    SKEIN_RETURN_IF_ERROR(context.out().Write(fmt::format("{:40} {:>10}{}\n", model.name, model::ShownBytes(model.bytes),
                                                          is_default(model) ? "  (default)" : "")));
  }
  if (models.empty()) context.Tell(fmt::format("no models in {}; skein pull default fetches one", ModelsFolder()));
  return OkStatus();
}

}  // namespace skein::app
