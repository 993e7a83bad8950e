// SPDX-License-Identifier: Apache-2.0
#include "help.h"

#include <fmt/format.h>

#include <algorithm>

#include "build_info.h"

namespace skein::app {
namespace {

constexpr int kColumns = 100;

// Calls `visit` with the fields of a command, which is not run.
template <typename Visit>
void VisitFields(const Command& command, const Visit& visit) {
  Context context;
  const FillFields fill = [&](FieldList& fields) -> Result<bool> {
    visit(fields);
    return false;
  };
  static_cast<void>(command.invoke(fill, context).ok());  // cannot fail: it only shows its fields
}

}  // namespace

std::string Overview() {
  std::string out = "usage: skein COMMAND …\n\nSkein runs large language models.\n";
  std::string_view group;
  for (const Command& command : Commands()) {
    if (command.group != group) out += fmt::format("\n{}:\n", command.group);
    group = command.group;
    out += fmt::format("  {:17} {}\n", command.name, command.summary);
  }
  out +=
      "\nMODEL is a GGUF file, a Hugging Face folder, a name that `skein models` lists, or `default`.\n"
      "\n  skein COMMAND --help   the options of a command\n"
      "  skein help all         all commands with their arguments\n"
      "  skein help docs        all options, as Markdown\n"
      "  skein help api         all fields of the HTTP API, as Markdown\n"
      "  skein --version        version and commit\n"
      "\nOptions may also come from the environment (SKEIN_MAX_TOKENS=64) and from a file (--config FILE).\n";
  return out;
}

std::string AllCommands() {
  std::string out;
  for (const Command& command : Commands()) {
    out += fmt::format("skein {} {}\n      {}\n", command.name, command.usage, command.summary);
  }
  return out;
}

std::string GroupHelp(std::string_view word) {
  std::string out = fmt::format("usage: skein {} COMMAND …\n\n", word);
  for (const Command& command : Commands()) {
    const std::size_t space = command.name.find(' ');
    if (space == std::string_view::npos || command.name.substr(0, space) != word) continue;
    out += fmt::format("  {:12} {}\n", command.name.substr(space + 1), command.summary);
  }
  return out + fmt::format("\nskein {} COMMAND --help shows the options of a command.\n", word);
}

std::string CommandHelp(const Command& command, const FieldList& fields) {
  std::string out = fmt::format("usage: skein {} {}\n{}\n\n", command.name, command.usage, command.summary);
  out += fields.Help(kColumns);
  if (!command.notes.empty()) out += fmt::format("\n{}\n", command.notes);
  return out;
}

std::string Documentation() {
  std::string out =
      "# Options\n\n"
      "Written by `skein help docs` from the fields that the program parses. A flag wins over the environment, the\n"
      "environment over the file given with `--config` (TOML; keys are the flags' names without the dashes, a table such as\n"
      "`[run]` or `[bench-model]` is for that command), the file over the default.\n";
  for (const Command& command : Commands()) {
    out += fmt::format("\n## skein {} {}\n\n{}.\n\n", command.name, command.usage, command.summary);
    VisitFields(command, [&](const FieldList& fields) { out += fields.Markdown(); });
  }
  return out;
}

std::vector<std::string> AllSettingNames() {
  std::vector<std::string> names;
  for (const Command& command : Commands()) {
    std::string table(command.name);
    std::replace(table.begin(), table.end(), ' ', '-');
    names.push_back(fmt::format("[{}]", table));
    VisitFields(command, [&](const FieldList& fields) {
      for (std::string& name : fields.FlagNames()) names.push_back(std::move(name));
    });
  }
  std::sort(names.begin(), names.end());
  names.erase(std::unique(names.begin(), names.end()), names.end());
  return names;
}

std::string Version() { return fmt::format("skein {} (commit {})\n", kVersion, kBuildCommit); }
std::string_view BuildCommit() { return kBuildCommit; }

}  // namespace skein::app
