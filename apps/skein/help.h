// SPDX-License-Identifier: Apache-2.0
//
// The texts of help, all made from the table of commands and their fields.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "base/options.h"
#include "command.h"

namespace skein::app {

std::string Overview();                                            // skein --help
std::string AllCommands();                                         // skein help all
std::string Documentation();                                       // skein help docs: Markdown
std::string GroupHelp(std::string_view word);                      // skein bench --help
std::string CommandHelp(const Command& command, const FieldList& fields);
std::string Version();                                             // skein --version
std::string_view BuildCommit();

// What a configuration file may hold: the names of the flags of all commands, and their tables ("[bench-model]").
std::vector<std::string> AllSettingNames();

}  // namespace skein::app
