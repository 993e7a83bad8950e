// SPDX-License-Identifier: Apache-2.0
//
// FieldList is the one description of an options struct: each field's name, meaning, limits and the member that it
// fills. Parsing of flags, environment (SKEIN_MAX_TOKENS) and configuration file, help, and the documentation all
// come from it, so adding an option is adding one field.
//
// A field's value comes from the first of: flag, environment, configuration file, default (what the member holds when
// the field is added). Not for use by several threads. The struct must outlive the list and stay where it is.
#pragma once

#include <cstdint>
#include <deque>
#include <limits>
#include <span>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "base/status.h"

namespace skein {

enum class OptionSource : std::uint8_t { kDefault, kFile, kEnvironment, kFlag };

class Field {
 public:
  // Repeatable fields are vectors of text; vectors of int are one value with commas: 512,2048.
  using Target = std::variant<bool*, int*, std::uint64_t*, float*, std::string*, std::vector<std::string>*,
                              std::vector<int>*>;

  // Numbers must lie in [minimum, maximum]; real numbers must be finite in any case.
  Field& Range(double minimum, double maximum);
  // Text must be one of `choices`.
  Field& OneOf(std::vector<std::string> choices);
  // A short name: -p.
  Field& Letter(char letter);
  // A size in bytes such as 4GiB, 512MiB or 1000000, for a target of std::uint64_t.
  Field& Bytes();
  // Names that other programs have for the same (letters too): not taken, but whoever types one is told this flag.
  Field& CalledElsewhere(std::vector<std::string> names);
  // Only given as a flag: neither the environment nor a file sets it.
  Field& FlagOnly();
  // Neither help nor documentation shows it.
  Field& ForDevelopers();

  const std::string& name() const { return name_; }
  bool positional() const { return positional_; }
  OptionSource source() const { return source_; }
  bool given() const { return source_ != OptionSource::kDefault; }
  bool is_switch() const { return std::holds_alternative<bool*>(target_); }
  // "--max-tokens", or "MODEL" of a positional.
  std::string Shown() const;
  // "SKEIN_MAX_TOKENS"; empty when the environment does not set the field.
  std::string EnvironmentName() const;
  // What is allowed, for messages and help: "a whole number from 1 to 4096", "one of bf16, int8".
  std::string Allowed() const;
  // The default as help shows it; empty when there is nothing worth showing.
  const std::string& default_text() const { return default_text_; }

 private:
  friend class FieldList;
  // Sets the target from text. `origin` is how messages call the place: "--top-p", "SKEIN_TOP_P", "skein.toml: top-p".
  Status Set(std::string_view text, OptionSource source, std::string_view origin);
  std::string CurrentText() const;

  std::string name_;
  std::string value_name_;  // "N"; empty for switches
  std::string help_;
  std::string group_;
  Target target_;
  double minimum_ = -std::numeric_limits<double>::infinity();
  double maximum_ = std::numeric_limits<double>::infinity();
  std::vector<std::string> choices_;
  std::vector<std::string> elsewhere_;
  std::string default_text_;
  char letter_ = 0;
  bool bytes_ = false;
  bool flag_only_ = false;
  bool for_developers_ = false;
  bool positional_ = false;
  bool required_ = false;
  OptionSource source_ = OptionSource::kDefault;
};

class FieldList {
 public:
  // Fields added from here on stand under this heading.
  void Group(std::string heading) { group_ = std::move(heading); }
  // A flag --`name`. `value_name` stands for the value in help, empty for a switch.
  Field& Add(std::string name, std::string value_name, Field::Target target, std::string help);
  // An argument without a flag, in order of the calls.
  Field& AddPositional(std::string name, std::string* target, bool required, std::string help);

  // Fills all targets. `command` is how messages call what is parsed ("skein run"); `known_elsewhere` are names that a
  // configuration file may hold because other commands have them (a table's as "[bench-model]"); a table of the file
  // named `table` is read as well.
  // `environment` looks a variable up (nullptr: not set). Errors are kInvalidArgument with the field's name.
  using Environment = const char* (*)(const char* name);
  Status Parse(std::span<const std::string> arguments, std::string_view command, std::string_view table,
               std::span<const std::string> known_elsewhere, Environment environment);

  const Field* Find(std::string_view name) const;
  const std::deque<Field>& fields() const { return fields_; }
  std::vector<std::string> FlagNames() const;

  // The lines of help: positionals, then groups with aligned columns of at most `columns`.
  std::string Help(int columns = 100) const;
  // A Markdown table of the flags, for the documentation.
  std::string Markdown() const;

 private:
  struct Given {
    Field* field;
    std::string text;
  };
  Status ReadArguments(std::span<const std::string> arguments, std::string_view command, std::vector<Given>& flags);
  Status ReadFile(const std::string& path, std::string_view origin, std::string_view table,
                  std::span<const std::string> known_elsewhere);
  // `texts` null: the file's value is of a kind that no option has.
  Status SetFromFile(const std::string& name, const std::string& origin, std::vector<std::string>* texts,
                     std::span<const std::string> known_elsewhere);
  Status ReadEnvironment(Environment environment);
  Field* FindFlag(std::string_view name);
  // What may have been meant by a flag that there is not: "did you mean --context?".
  std::string AdviceFor(std::string_view name, std::string_view command) const;

  std::deque<Field> fields_;  // references to fields stay valid while more are added
  std::string group_ = "Options";
};

}  // namespace skein
