//! Ports on the command line.

use crate::world::World;

#[test]
fn ports_are_allocated_listed_and_freed() {
    let world = World::served();
    let none = world.as_session("ana", ["ports", "--list"]).ok();
    assert_eq!((none.out.as_str(), none.err.contains("this session has no ports")), ("", true), "{none:?}");
    let said = world.as_session("ana", ["ports"]).ok();
    let ports: Vec<u16> = said.out.lines().map(|line| line.parse().unwrap()).collect();
    assert_eq!(ports, (ports[0]..ports[0] + 4).collect::<Vec<_>>());
    assert!(said.err.contains("allocated for 30 min"), "{said:?}");
    let env = world.as_session("ana", ["ports", "--env"]).ok().out;
    let project = env.lines().find_map(|line| line.strip_prefix("export COMPOSE_PROJECT_NAME=")).unwrap().to_owned();
    assert!(project.starts_with("dibs-ana-"), "{env}");
    assert_eq!(
        env,
        format!(
            "export API_PORT={}\nexport COMPOSE_PROJECT_NAME={project}\nexport DB_PORT={}\nexport REALTIME_PORT={}\nexport REST_PORT={}\n",
            ports[3], ports[0], ports[2], ports[1]
        )
    );
    assert_eq!(world.as_session("ana", ["ports", "--list"]).ok().out, said.out);
    let status = world.dibs(["status"]).ok().out;
    assert!(status.contains(&format!("port:{}", ports[0])), "{status}");
    let six = world.as_session("ana", ["ports", "--count", "6", "--json"]).ok();
    let six: serde_json::Value = serde_json::from_str(&six.out).unwrap();
    assert_eq!(six["ports"].as_array().unwrap().len(), 6);
    assert_eq!(world.as_session("ana", ["ports", "--free"]).ok().out, "freed 6 ports\n");
    assert_eq!(world.held(), [""; 0]);
    world.as_session("ana", ["ports", "--count", "65"]).fails(2);
}
