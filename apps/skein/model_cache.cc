// SPDX-License-Identifier: Apache-2.0
#include "model_cache.h"

#include <fmt/format.h>
#include <pwd.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <filesystem>

namespace skein::app {
namespace {

std::string Variable(const char* name) {
  const char* text = std::getenv(name);
  return text == nullptr ? "" : text;
}

bool Exists(const std::string& path) {
  struct stat found {};
  return ::stat(path.c_str(), &found) == 0;
}

// HOME, or what the user database says where HOME is not set (cron, containers). Never a folder that everybody may
// write: a model planted there would be taken for ours.
std::string HomeFolder() {
  if (std::string home = Variable("HOME"); !home.empty()) return home;
  const passwd* user = ::getpwuid(::getuid());
  return user != nullptr && user->pw_dir != nullptr && *user->pw_dir == '/' ? user->pw_dir : ".";
}

}  // namespace

std::string CacheFolder() {
  if (std::string own = Variable("SKEIN_CACHE"); !own.empty()) return own;
  if (std::string cache = Variable("XDG_CACHE_HOME"); !cache.empty()) return cache + "/skein";
  return HomeFolder() + "/.cache/skein";
}

std::string ModelsFolder() { return CacheFolder() + "/models"; }
std::string DefaultModelPath() { return ModelsFolder() + "/" + DefaultModel::kFile; }

std::vector<CachedModel> CachedModels() {
  std::vector<CachedModel> models;
  std::error_code error;
  for (const auto& entry : std::filesystem::directory_iterator(ModelsFolder(), error)) {
    std::error_code ignored;
    const bool folder = entry.is_directory(ignored);
    if (!folder && entry.path().extension() != ".gguf") continue;
    CachedModel model;
    model.path = entry.path().string();
    model.name = folder ? entry.path().filename().string() : entry.path().stem().string();
    if (!folder) {
      model.bytes = entry.file_size(ignored);
    } else {
      for (const auto& file : std::filesystem::directory_iterator(entry.path(), ignored)) {
        std::error_code unknown;
        const std::uint64_t bytes = file.is_regular_file(unknown) ? file.file_size(unknown) : 0;
        if (!unknown) model.bytes += bytes;
      }
    }
    models.push_back(std::move(model));
  }
  std::sort(models.begin(), models.end(), [](const auto& a, const auto& b) { return a.name < b.name; });
  return models;
}

Result<std::string> ResolveModel(const std::string& model) {
  if (model.empty()) return InvalidArgument("MODEL is a file, a folder or a name, found nothing", "MODEL");
  if (model == "default") {
    const std::string path = DefaultModelPath();
    if (Exists(path)) return path;
    return MissingError(
        fmt::format("the default model is expected at {}, found nothing; run: skein pull default", path), "MODEL");
  }
  if (Exists(model) || model.find('/') != std::string::npos) return model;
  for (const std::string& path : {ModelsFolder() + "/" + model, ModelsFolder() + "/" + model + ".gguf"}) {
    if (Exists(path)) return path;
  }
  return model;
}

}  // namespace skein::app
