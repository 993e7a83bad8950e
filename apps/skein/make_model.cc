// SPDX-License-Identifier: Apache-2.0
//
// skein make-model: a GGUF file of a known shape with random weights.
#include "formats/make_model.h"

#include <fmt/format.h>

#include "base/json_writer.h"
#include "commands.h"
#include "progress.h"
#include "tensor/dtype.h"

namespace skein::app {

void MakeModelCommandOptions::Describe(FieldList& fields) {
  fields.Group("Model");
  fields.Add("shape", "NAME", &shape, "widths and layers").OneOf(formats::MakeModelShapes());
  fields.Add("format", "NAME", &format, "of the matrices").OneOf({"Q4_0", "Q4_1", "Q8_0", "BF16", "F16", "F32"});
  fields.Add("out", "FILE", &out, "where to write it; needed").FlagOnly();
  fields.Add("seed", "N", &seed, "the same seed gives the same file");
  output.Describe(fields);
}

Status RunMakeModel(const MakeModelCommandOptions& options, Context& context) {
  if (options.out.empty()) return InvalidArgument("skein make-model needs --out FILE, found none", "--out");
  formats::MakeModelOptions make;
  make.shape = options.shape;
  make.format = DTypeFromName(options.format).value_or(DType::kQ4_0);
  make.seed = options.seed;
  make.path = options.out;
  {
    ProgressBar bar(context, "writing");
    make.progress = [&bar](std::uint64_t done, std::uint64_t all) { bar.Show(done, all); };
    SKEIN_RETURN_IF_ERROR(formats::MakeModel(make));
  }
  if (!context.json()) {
    context.Tell(fmt::format("{} written: shape {}, {}, seed {}", options.out, options.shape, options.format, options.seed));
    return OkStatus();
  }
  JsonWriter json;
  json.BeginObject().Member("path", options.out).Member("shape", options.shape).Member("format", options.format);
  json.Member("seed", options.seed).EndObject();
  return context.out().Write(json.Take() + "\n");
}

}  // namespace skein::app
