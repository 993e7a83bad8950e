// SPDX-License-Identifier: Apache-2.0
//
// Where values come from: the command line first (it may name the configuration file), then file, environment and
// flags are applied in rising order of strength.
#include <fmt/format.h>

#include <algorithm>
#include <cstdlib>

#include "base/edit_distance.h"
#include "base/options.h"

namespace skein {

Field* FieldList::FindFlag(std::string_view name) {
  for (Field& field : fields_) {
    if (!field.positional_ && field.name_ == name) return &field;
  }
  return nullptr;
}

Status FieldList::Parse(std::span<const std::string> arguments, std::string_view command, std::string_view table,
                        std::span<const std::string> known_elsewhere, Environment environment) {
  std::vector<Given> flags;
  SKEIN_RETURN_IF_ERROR(ReadArguments(arguments, command, flags));
  std::string path, origin;
  if (Field* config = FindFlag("config")) {
    origin = config->EnvironmentName();
    if (const char* text = environment(origin.c_str())) path = text;
    for (const Given& given : flags) {
      if (given.field == config) path = given.text, origin = config->Shown();
    }
  }
  if (!path.empty()) SKEIN_RETURN_IF_ERROR(ReadFile(path, origin, table, known_elsewhere));
  SKEIN_RETURN_IF_ERROR(ReadEnvironment(environment));
  for (const Given& given : flags) {
    SKEIN_RETURN_IF_ERROR(given.field->Set(given.text, OptionSource::kFlag, given.field->Shown()));
  }
  for (const Field& field : fields_) {
    if (field.required_ && !field.given()) {
      return InvalidArgument(fmt::format("{} needs {}, found none; see {} --help", command, field.Shown(), command),
                             field.Shown());
    }
  }
  return OkStatus();
}

Status FieldList::ReadArguments(std::span<const std::string> arguments, std::string_view command,
                                std::vector<Given>& flags) {
  auto positional = fields_.begin();
  bool flags_ended = false;
  for (std::size_t i = 0; i < arguments.size(); ++i) {
    const std::string& argument = arguments[i];
    if (flags_ended || argument == "-" || !argument.starts_with('-')) {
      while (positional != fields_.end() && !positional->positional_) ++positional;
      if (positional == fields_.end()) {
        return InvalidArgument(fmt::format("{} takes no further argument, found '{}'; see {} --help", command,
                                           argument.substr(0, 60), command));
      }
      flags.push_back({&*positional++, argument});
      continue;
    }
    if (argument == "--") {
      flags_ended = true;
      continue;
    }
    const std::size_t equals = argument.find('=');
    const std::string name = argument.substr(0, equals);
    Field* found = nullptr;
    if (name.starts_with("--")) {
      found = FindFlag(std::string_view(name).substr(2));
    } else if (name.size() == 2) {
      for (Field& field : fields_) {
        if (field.letter_ == name[1]) found = &field;
      }
    }
    if (found == nullptr) {
      return InvalidArgument(fmt::format("{} has no flag {}; {}", command, name.substr(0, 60), AdviceFor(name, command)),
                             name);
    }
    if (equals != std::string::npos) {
      flags.push_back({found, argument.substr(equals + 1)});
    } else if (found->is_switch()) {
      flags.push_back({found, "true"});
    } else if (i + 1 < arguments.size()) {
      flags.push_back({found, arguments[++i]});
    } else {
      return InvalidArgument(fmt::format("{} takes {}, found nothing after it", found->Shown(), found->Allowed()),
                             found->Shown());
    }
  }
  return OkStatus();
}

std::string FieldList::AdviceFor(std::string_view name, std::string_view command) const {
  name.remove_prefix(std::min(name.find_first_not_of('-'), name.size()));
  for (const Field& field : fields_) {
    if (std::find(field.elsewhere_.begin(), field.elsewhere_.end(), name) == field.elsewhere_.end()) continue;
    return field.positional_ ? fmt::format("{} is given without a flag", field.name_)
                             : fmt::format("did you mean {}?", field.Shown());
  }
  const std::string nearest = NearestWord(name, FlagNames());
  return nearest.empty() ? fmt::format("see {} --help", command) : fmt::format("did you mean --{}?", nearest);
}

Status FieldList::ReadEnvironment(Environment environment) {
  for (Field& field : fields_) {
    const std::string name = field.EnvironmentName();
    if (name.empty()) continue;
    const char* text = environment(name.c_str());
    if (text == nullptr || *text == '\0') continue;
    SKEIN_RETURN_IF_ERROR(field.Set(text, OptionSource::kEnvironment, name));
  }
  return OkStatus();
}

}  // namespace skein
