//! One flag per door: `--batch HOST:PORT` and its like, out of the list of doors.

use clap::{Arg, ArgMatches, Args, Command, FromArgMatches};
use weir_config::config::{Config, listen};
use weir_config::doors::{ADMIN, DoorSpec, all_doors};
use weir_config::listen::Listen;

/// Where doors listen, as far as the command line says so.
#[derive(Clone, Debug)]
pub struct DoorAddresses(Vec<(&'static DoorSpec, Listen)>);

impl DoorAddresses {
    /// Puts the addresses in the place of the configured ones.
    pub fn apply(&self, config: &mut Config) {
        for (door, listen) in &self.0 {
            (door.set_listen)(config, *listen);
        }
    }
}

impl DoorAddresses {
    /// Does the command line say where this door listens?
    #[must_use]
    pub fn names(&self, door: &DoorSpec) -> bool {
        self.0.iter().any(|(named, _)| named.name == door.name)
    }
}

impl FromArgMatches for DoorAddresses {
    fn from_arg_matches(matches: &ArgMatches) -> Result<DoorAddresses, clap::Error> {
        let given = |door: &'static DoorSpec| Some((door, *matches.get_one(door.name)?));
        Ok(DoorAddresses(all_doors().filter_map(given).collect()))
    }

    fn update_from_arg_matches(&mut self, matches: &ArgMatches) -> Result<(), clap::Error> {
        *self = DoorAddresses::from_arg_matches(matches)?;
        Ok(())
    }
}

impl Args for DoorAddresses {
    fn augment_args(command: Command) -> Command {
        all_doors().fold(command, |command, door| {
            let off = if door.name == ADMIN.name { "" } else { ", \"\" turns it off" };
            let help = format!("Address of the {}; port 0 picks a free one{off}", door.title);
            let flag = Arg::new(door.name).long(door.name).value_name("HOST:PORT");
            command.arg(flag.value_parser(listen).help(help))
        })
    }

    fn augment_args_for_update(command: Command) -> Command {
        DoorAddresses::augment_args(command)
    }
}
