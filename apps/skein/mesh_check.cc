// SPDX-License-Identifier: Apache-2.0
//
// skein mesh check: whether ranks can work on this host, or on several, and what is in the way. A line for each thing, as doctor has them.
#include <fmt/format.h>

#include <algorithm>

#include "base/json_writer.h"
#include "help.h"
#include "mesh.h"
#include "mesh_check_findings.h"

namespace skein::app {
namespace {

std::string JsonOf(const std::vector<Finding>& findings, const HostSpeed& speed) {
  JsonWriter json;
  json.BeginObject().Key("findings").BeginArray();
  for (const Finding& finding : findings) {
    json.BeginObject().Member("name", finding.name).Member("status", finding.status);
    json.Member("meaning", finding.meaning).Member("fix", finding.fix).EndObject();
  }
  json.EndArray();
  if (speed.prompt > 0) json.Member(kPromptSpeed, speed.prompt).Member(kTokenSpeed, speed.token);
  json.EndObject();
  return json.Take() + "\n";
}

std::string TextOf(const std::vector<Finding>& findings) {
  std::size_t width = 0;
  for (const Finding& finding : findings) width = std::max(width, finding.name.size());
  std::string out;
  for (const Finding& finding : findings) {
    out += fmt::format("{:5} {:{}} {}\n", finding.status, finding.name, width, finding.meaning);
    if (!finding.fix.empty()) out += fmt::format("{:{}} fix: {}\n", "", width + 6, finding.fix);
  }
  return out;
}

}  // namespace

void MeshCheckOptions::Describe(FieldList& fields) {
  fields.Group("Where");
  fields.Add("hosts", "LIST", &hosts, "names with commas between them [this host]").FlagOnly();
  fields.Add("transport", "NAME", &transport, "what to try on this host").OneOf({"all", "threads", "shm", "mpi", "none"}).FlagOnly();
  fields.Add("agent", "PROGRAM", &agent, "called as PROGRAM HOST COMMAND in place of ssh").FlagOnly();
  fields.Add("remote-program", "PATH", &remote_program, "this program on other hosts [the same path]").FlagOnly();
  fields.Add("patience", "SECONDS", &patience_s, "for one host to answer").Range(1, 600).FlagOnly();
  output.Describe(fields);
}

Status RunMeshCheck(const MeshCheckOptions& options, Context& context) {
  std::vector<Finding> findings;
  HostSpeed speed;  // of this host, when it alone is looked at
  if (options.hosts.empty()) {
    findings = ExamineHere(options);
    SKEIN_ASSIGN_OR_RETURN(speed, MeasureHostSpeed());
    findings.push_back(SpeedOf("speed", speed));
  } else {
    SKEIN_ASSIGN_OR_RETURN(const std::vector<std::string> hosts, HostNames(options.hosts));
    findings = ExamineHosts(hosts, options, Version());
  }
  SKEIN_RETURN_IF_ERROR(context.out().Write(context.json() ? JsonOf(findings, speed) : TextOf(findings)));
  const auto failed = std::count_if(findings.begin(), findings.end(), [](const Finding& finding) { return finding.status == "fail"; });
  if (failed == 0) return OkStatus();
  return Status(Code::kUnavailable, fmt::format("all of {} checks were expected to go well, {} failed; see the lines above", findings.size(), failed));
}

}  // namespace skein::app
