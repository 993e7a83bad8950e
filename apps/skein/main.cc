// SPDX-License-Identifier: Apache-2.0
//
// The program: finds the command that was meant, fills its options, runs it, and turns its Status into one line and an
// exit status.
#include <fcntl.h>
#include <fmt/format.h>
#include <malloc.h>
#include <sys/resource.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <csignal>
#include <cstdlib>
#include <new>
#include <string>
#include <vector>

#include "base/edit_distance.h"
#include "command.h"
#include "context.h"
#include "help.h"
#include "interrupt.h"
#include "rank.h"
#include "report.h"
#include "server/openai/field_tables.h"

namespace skein::app {
namespace {

const char* FromEnvironment(const char* name) { return std::getenv(name); }

bool AsksForHelp(std::span<const std::string> arguments) {
  for (const std::string& argument : arguments) {
    if (argument == "--") return false;
    if (argument == "--help" || argument == "-h") return true;
  }
  return false;
}

// The first words of commands, each once.
std::vector<std::string> FirstWords() {
  std::vector<std::string> words{"help"};
  for (const Command& command : Commands()) {
    std::string word(command.name.substr(0, command.name.find(' ')));
    if (std::find(words.begin(), words.end(), word) == words.end()) words.push_back(std::move(word));
  }
  return words;
}

Status RunCommand(const Command& command, std::span<const std::string> arguments, Context& context) {
  const FillFields fill = [&](FieldList& fields) -> Result<bool> {
    if (AsksForHelp(arguments)) {
      SKEIN_RETURN_IF_ERROR(context.out().Write(CommandHelp(command, fields)));
      return false;
    }
    // Names that a configuration file may hold for other commands; collected only when there is such a file.
    const bool has_file = std::getenv("SKEIN_CONFIG") != nullptr ||
                          std::any_of(arguments.begin(), arguments.end(),
                                      [](const std::string& argument) { return argument.starts_with("--config"); });
    const std::vector<std::string> known = has_file ? AllSettingNames() : std::vector<std::string>();
    std::string table(command.name);
    std::replace(table.begin(), table.end(), ' ', '-');
    SKEIN_RETURN_IF_ERROR(
        fields.Parse(arguments, fmt::format("skein {}", command.name), table, known, FromEnvironment));
    return true;
  };
  return command.invoke(fill, context);
}

Status Dispatch(std::span<const std::string> arguments, Context& context) {
  if (arguments.empty()) {
    return InvalidArgument("skein needs a command, found none; see skein --help");
  }
  const std::string& word = arguments[0];
  if (word == kRankWord) RunRankProcess();
  if (word == "--version" || word == "-V") return context.out().Write(Version());
  if (word == "--help" || word == "-h" || (word == "help" && arguments.size() == 1)) {
    return context.out().Write(Overview());
  }
  if (word == "help") {
    if (arguments[1] == "all") return context.out().Write(AllCommands());
    if (arguments[1] == "docs") return context.out().Write(Documentation());
    if (arguments[1] == "api") return context.out().Write(server::ApiReference());
    if (arguments[1] == "--help" || arguments[1] == "-h") return context.out().Write(Overview());
    std::vector<std::string> asked(arguments.begin() + 1, arguments.end());
    asked.push_back("--help");
    return Dispatch(asked, context);
  }
  std::vector<std::string> second_words;
  for (const Command& command : Commands()) {
    const std::size_t space = command.name.find(' ');
    if (command.name.substr(0, space) != word) continue;
    if (space == std::string_view::npos) return RunCommand(command, arguments.subspan(1), context);
    second_words.emplace_back(command.name.substr(space + 1));
    if (arguments.size() > 1 && arguments[1] == second_words.back()) {
      return RunCommand(command, arguments.subspan(2), context);
    }
  }
  if (second_words.empty()) {
    const std::string nearest = NearestWord(word, FirstWords());
    return InvalidArgument(fmt::format("skein has no command '{}'; {}", word.substr(0, 60),
                                       nearest.empty() ? "see skein --help" : "did you mean " + nearest + "?"));
  }
  if (AsksForHelp(arguments.subspan(1))) return context.out().Write(GroupHelp(word));
  if (arguments.size() == 1) {
    return InvalidArgument(fmt::format("skein {} needs one of {}, found none; see skein {} --help", word,
                                       fmt::join(second_words, ", "), word));
  }
  const std::string nearest = NearestWord(arguments[1], second_words);
  return InvalidArgument(fmt::format("skein {} has {}, found '{}'; {}", word, fmt::join(second_words, ", "),
                                     arguments[1].substr(0, 60),
                                     nearest.empty() ? fmt::format("see skein {} --help", word)
                                                     : fmt::format("did you mean {}?", nearest)));
}

// Under a limit of address space (ulimit -v) threads share one heap: heaps of their own would reserve 64 MiB each.
void KeepAddressSpace() {
  rlimit limit{};
  if (::getrlimit(RLIMIT_AS, &limit) == 0 && limit.rlim_cur != RLIM_INFINITY) ::mallopt(M_ARENA_MAX, 1);
}

// Files that the program opens must not take the numbers of standard streams that were closed (2>&-): an error message
// would be written into a model. The stand-ins fail to read and write as closed ones do.
void OccupyStandardStreams() {
  for (const int stream : {STDIN_FILENO, STDOUT_FILENO, STDERR_FILENO}) {
    if (::fcntl(stream, F_GETFD) >= 0 || errno != EBADF) continue;
    const int opened = ::open("/dev/null", stream == STDIN_FILENO ? O_WRONLY : O_RDONLY);
    if (opened >= 0 && opened != stream) ::close(opened);
  }
}

int Main(std::span<const std::string> arguments) {
  OccupyStandardStreams();
  std::signal(SIGPIPE, SIG_IGN);
  std::signal(SIGXFSZ, SIG_IGN);  // a limit of file sizes (ulimit -f) is an error of writing
  EndOnInterrupt();
  KeepAddressSpace();
  Context context;
  const auto flags_end = std::find(arguments.begin(), arguments.end(), "--");
  const bool json = std::find(arguments.begin(), flags_end, "--json") != flags_end;
  // Libraries throw when memory ends; everything of ours answers with a Status.
  try {
    const Status status = Dispatch(arguments, context);  // which may set json(), by environment or file
    return Report(status, json || context.json(), context);
  } catch (const std::bad_alloc&) {
    return Report(LimitExceeded("memory that this process may take is used up; allow more (ulimit -v) or take a smaller "
                                "model or --context"),
                  json || context.json(), context);
  } catch (const std::exception& error) {
    return Report(InternalError(fmt::format("nothing was expected to fail here, found: {}", error.what())),
                  json || context.json(), context);
  }
}

}  // namespace
}  // namespace skein::app

int main(int count, char** values) {
  const std::vector<std::string> arguments(values + std::min(count, 1), values + count);
  return skein::app::Main(arguments);
}
