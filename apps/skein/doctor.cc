// SPDX-License-Identifier: Apache-2.0
//
// skein doctor: what this machine can run, and what is in the way.
#include "doctor.h"

#include <fmt/format.h>

#include <algorithm>

#include "base/json_writer.h"
#include "commands.h"
#include "kernels/arithmetic.h"

namespace skein::app {
namespace {

// The default of 4-bit weights on this machine first, then the others.
std::vector<kernels::Arithmetic> Arithmetics(kernels::KernelPath best) {
  using kernels::Arithmetic;
  std::vector<Arithmetic> list{kernels::DefaultArithmetic(kernels::WeightFormat::kW4Min, best)};
  for (const Arithmetic arithmetic :
       {Arithmetic::kInt8G32, Arithmetic::kBf16T, Arithmetic::kBf16P, Arithmetic::kExact}) {
    if (std::find(list.begin(), list.end(), arithmetic) == list.end()) list.push_back(arithmetic);
  }
  return list;
}

}  // namespace

void DoctorOptions::Describe(FieldList& fields) { output.Describe(fields); }

Status RunDoctor(const DoctorOptions&, Context& context) {
  const std::vector<Finding> findings = ExamineMachine();
  const std::vector<kernels::KernelPath> paths = kernels::AvailablePaths();
  const std::vector<kernels::Arithmetic> arithmetics = Arithmetics(paths.front());
  if (context.json()) {
    JsonWriter json;
    json.BeginObject().Key("findings").BeginArray();
    for (const Finding& finding : findings) {
      json.BeginObject().Member("name", finding.name).Member("status", finding.status);
      json.Member("meaning", finding.meaning).Member("fix", finding.fix).EndObject();
    }
    json.EndArray().Key("kernels").BeginArray();
    for (const kernels::KernelPath path : paths) json.Value(NameOf(path));
    json.EndArray().Key("arithmetics").BeginArray();
    for (const kernels::Arithmetic arithmetic : arithmetics) json.Value(NameOf(arithmetic));
    json.EndArray().EndObject();
    return context.out().Write(json.Take() + "\n");
  }
  for (const Finding& finding : findings) {
    SKEIN_RETURN_IF_ERROR(context.out().Write(fmt::format("{:5} {:14} {}\n", finding.status, finding.name, finding.meaning)));
    if (!finding.fix.empty()) SKEIN_RETURN_IF_ERROR(context.out().Write(fmt::format("{:20} fix: {}\n", "", finding.fix)));
  }
  std::string names;
  for (const kernels::Arithmetic arithmetic : arithmetics) {
    names += (names.empty() ? "" : ", ") + std::string(NameOf(arithmetic));
  }
  return context.out().Write(fmt::format("{:5} {:14} {} (default of 4-bit weights first)\n", "", "arithmetics", names));
}

}  // namespace skein::app
