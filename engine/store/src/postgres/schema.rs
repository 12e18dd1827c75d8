//! The tables: those of certmagic's plugin for PostgreSQL, with columns and triggers of ours.

/// The statements that create the tables, for operators who do not let the store do it.
///
/// `certmagic_data` and `certmagic_locks` are the tables of the plugin `caddy.storage.postgres`, which goes on using
/// them. Triggers give each value a new revision and announce it, also if Caddy wrote it, and give a lock that Caddy
/// took a new token, so that the former holder of ours is refused. They run as their owner: the role of Caddy
/// needs no privileges on the sequence.
pub const SCHEMA: &str = "
create table if not exists certmagic_data (
  key text primary key,
  value bytea,
  modified timestamptz default current_timestamp
);
create table if not exists certmagic_locks (
  key text primary key,
  expires timestamptz default current_timestamp
);
create sequence if not exists sluice_revision;
alter table certmagic_data add column if not exists revision bigint;
alter table certmagic_locks
  add column if not exists token bigint,
  add column if not exists renewals bigint not null default 0,
  add column if not exists holder text;

create or replace function sluice_data_revise() returns trigger
language plpgsql security definer set search_path from current as $$
begin
  new.revision := nextval('sluice_revision');
  return new;
end $$;
create or replace function sluice_data_announce() returns trigger
language plpgsql security definer set search_path from current as $$
begin
  perform pg_notify('sluice_data', case when tg_op = 'DELETE' then old.key else new.key end);
  return null;
end $$;
create or replace function sluice_locks_revise() returns trigger
language plpgsql security definer set search_path from current as $$
begin
  if tg_op = 'UPDATE' and new.renewals = old.renewals then
    new.token := nextval('sluice_revision');
    new.holder := null;
  end if;
  new.token := coalesce(new.token, nextval('sluice_revision'));
  return new;
end $$;

drop trigger if exists sluice_data_revise_1 on certmagic_data;
create trigger sluice_data_revise_1 before insert or update on certmagic_data
  for each row execute function sluice_data_revise();
drop trigger if exists sluice_data_announce_1 on certmagic_data;
create trigger sluice_data_announce_1 after insert or update or delete on certmagic_data
  for each row execute function sluice_data_announce();
drop trigger if exists sluice_locks_revise_1 on certmagic_locks;
create trigger sluice_locks_revise_1 before insert or update on certmagic_locks
  for each row execute function sluice_locks_revise();
";

/// How many of our triggers there are, [`TRIGGERS`] if the schema is complete.
pub(super) const COUNT: &str = "
select count(*) from pg_trigger
where tgname in ('sluice_data_revise_1', 'sluice_data_announce_1', 'sluice_locks_revise_1')
  and tgrelid in (to_regclass('certmagic_data'), to_regclass('certmagic_locks'))
";

pub(super) const TRIGGERS: &str = "3";

/// Several nodes may create the tables at the same time: one after the other. The number is arbitrary.
pub(super) const CREATE_LOCK: &str = "select pg_advisory_xact_lock(7307203621)";
